"""A file is written as a whole or not at all, and any reader of safetensors can open it."""

from __future__ import annotations

import base64
import errno
import json
import os
import stat
import zlib

import numpy as np
import pytest

from dyadlearn import TwoStepRidge, TwoStepRidgeCV, load, save
from dyadlearn.store.container import read_container
from dyadlearn.store.files import read_model, write_model

pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

X, T = np.arange(8.0).reshape(4, 2) % 3, np.eye(3)
Y = np.arange(12.0).reshape(4, 3) % 5


@pytest.fixture
def model():
    return TwoStepRidge().fit(X, Y, tasks=T)


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), MemoryError()]
)
@pytest.mark.parametrize("moment", ["open", "write", "fsync", "replace"])
def test_what_goes_wrong_leaves_the_old_file_as_it_was(moment, error, model, tmp_path, monkeypatch):
    path = tmp_path / "model.dyad"
    save(model, path)
    before = path.read_bytes()

    def fail(*arguments):
        raise error

    if moment == "open":
        monkeypatch.setattr("dyadlearn._files.atomic.open", fail, raising=False)
    elif moment == "write":
        monkeypatch.setattr("dyadlearn.store.container._bytes", fail)
    else:
        monkeypatch.setattr(f"dyadlearn.store.container.os.{moment}", fail)
    with pytest.raises(type(error)):
        save(TwoStepRidge(7.0).fit(X, Y, tasks=T), path)
    monkeypatch.undo()
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.dyad"]
    assert path.read_bytes() == before


def test_a_full_disk_is_told_by_the_system(model, tmp_path):
    resource = pytest.importorskip("resource")
    signal = pytest.importorskip("signal")
    path = tmp_path / "model.dyad"
    save(model, path)
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        with pytest.raises(OSError) as caught:
            save(model, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.errno == errno.EFBIG
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.dyad"]
    assert path.read_bytes() == before


def test_the_file_is_on_the_disk_before_it_takes_its_name(model, tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        original = getattr(os, name)
        monkeypatch.setattr(
            f"dyadlearn.store.container.os.{name}",
            lambda *arguments, name=name, original=original: (calls.append(name), original(*arguments)),
        )
    save(model, tmp_path / "model.dyad")
    assert calls == ["fsync", "replace", "fsync"]


def test_places_that_cannot_be_written_are_named(model, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such folder to put the file in: '.*nowhere'"):
        save(model, tmp_path / "nowhere" / "model.dyad")
    with pytest.raises(IsADirectoryError, match="This is a folder, not the name of a file"):
        save(model, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of other systems differ")
def test_permissions_and_links_are_kept(model, tmp_path):
    path, link = tmp_path / "model.dyad", tmp_path / "latest.dyad"
    save(model, path)
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o640)
    link.symlink_to(path.name)
    save(TwoStepRidge(7.0).fit(X, Y, tasks=T), str(link))
    assert link.is_symlink()
    assert load(path).alpha == 7.0
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_any_reader_of_safetensors_opens_the_arrays(tmp_path):
    safetensors = pytest.importorskip("safetensors")
    from safetensors.numpy import load_file

    model = TwoStepRidgeCV([0.1, 1.0, 1e9], [0.1, 1e-9, 1e9], setting="D", kernel="rbf").fit(
        np.asfortranarray(X + T[2, 1:]), Y.astype(np.float32), tasks=T
    )
    save(model, tmp_path / "model.dyad")
    arrays = load_file(tmp_path / "model.dyad")
    np.testing.assert_array_equal(arrays["grid.values"], Y)
    np.testing.assert_array_equal(arrays["side.features"], X + T[2, 1:])
    np.testing.assert_array_equal(arrays["landscape_"], model.landscape_)
    with safetensors.safe_open(tmp_path / "model.dyad", framework="np") as file:
        metadata = file.metadata()
    assert (metadata["format"], metadata["version"]) == ("dyadlearn", "1")
    header = json.loads(metadata["header"])
    assert header["versions"]["numpy"] == np.__version__
    described = header["model"]["$TwoStepRidgeCV"]
    assert (described["parameters"]["setting"], described["state"]["best_score_"]) == ("D", model.best_score_)
    assert described["state"]["side"]["$Side"]["spec"]["$KernelSpec"]["kernel"] == "rbf"


def test_a_header_may_hold_more_than_the_model(model, tmp_path):
    write_model(model, tmp_path / "model.dyad", origin={"file": "labels.csv"})
    loaded, header = read_model(tmp_path / "model.dyad")
    assert header["origin"] == {"file": "labels.csv"}
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_no_array_is_stored_twice(tmp_path):
    m, q, r = 30, 12, 5
    save(TwoStepRidge(kernel="rbf").fit(np.arange(m)[:, None], np.ones((m, q)), tasks=np.eye(q, r)), tmp_path / "model")
    _, arrays = read_container(tmp_path / "model")
    labels, side, tasks, coefficients = m * q, m * m + m + m, q * r + r * r + r, m * r
    assert sum(array.size for array in arrays.values()) == labels + side + tasks + coefficients


# Written by the first version that had a model file: format 1 must stay readable.
FIRST = """
c-qxgU2GIp6s|lFq(+VKVl+}$9yCtJ`PtbYP^XqeA2g)c)~IYd-krI#JMQevGBdlSG#iY*7!wmPL{kI!ix|=vUyy&d{8ds2AVv$p02U=`Z7~MH1pn^6GqX
F}?zZC3gZE|bIp^N*p7Wh^&z(b!4P^9%Bq<9Wpa2I*QfN_MNHwi2a6*ehN-t1!2rMH+g$mHJHPb*^7D;j%${9PKMPe+ea9k{$1iZqt(I_vlQ0A35lVszvz
yg8iqDov2t2`f%2}+a+%S?;`5jD;$ssiLFLQ6xSKnr2@CH!;j1o9+N@c@a55JR&xLo2YrBtldol<RfUrfcD8mZhUaYvi-JUZUjaFdZQ}Th=@sOS4g$^_3a
TX|BMtbR3(C$d)w~sJkvK?C3Gu9hiGuQ&Mor6Rt7`EPzNuzPd8db7_F*%aM;1@{(d1n(0DFasg?Lyso3Us_AG;Mb1FWAjc#^R#GKSxhg4TY0Bhv5;@d6Fa
@$%fTj#B5P!i+NprDThG8%{mYK4kZC6k%m;;(cPLp*l=W$?Knvo((1Ex?R07J4@<beeh30jtExyzvA_{&;}#sPLlDo2fJa`HJHx(o;ub^;B;gFg@-MStgH
CWtaXhprhYEtQjM(h{_kx$$i#24Z0|6T^qv4sc)~RT4JROjRI~ODEDLq3uYR8i;kxsEWcIFGON7J}L;P#L*HR7>X@}99e<G2bKlg5?kVykgX}+i3{7yQ#%
J`Px&ZuyuGZbQ4G^0d`dEl<V=L-Soy4fZk1R7dLG*K+%+W2?7`MBE?P62GYx1s0Y(c5%e3n5S0Qln7Obi_43l>tP8o6o5*IZku*5)@C?Ezf>i8&|dOk~<1
6M2;(?4K3P-l}X=)Yr_|9>#d6EyG2;nk0UB-9@%%hN}z8R*U#GL)*^A^ED(WHcjir8Qe}SwJck=(ZbC57biWAXBR5pr9qx<B~e`bI}%*P;*Y33USEkF(n%
{aFXSxe1B6wbGtqckoIG#k>biqTxWE}ir13HQQb@GZZFsBB#cT2DmS2VdnE6VmO;;)iQkdF;?xdWbBV2`@S$ui@&c`K>dQfP<Eql3qmjqe+a>F!J%#d0aF
a9Q!a!BkWX-GcItAyKq@)?RmvTs%Hg(0!J9S&DZ+DX{5ffYqWTy!|<^|Y{E><(L<11S%q8)*5jsI^Hr#A=D-^Rm{F#7qh(*R4$d5Z6%LgX*VR8{oi+4wD^
q8xg)s#EV(OMR&DRG=t_Uczt<DEH1!gGJRqLr@gQS3L7MoDPPY3WFdhE*`-!Q;T!PC~MG#z$l($>H*FaYt0lOJc^HV)tEB}TpKISQQ-(lL*Uv^$65^#1V9
N95@fK#uMq_yP!WM}@0as6BB0$=R6xWOoA6Lak1_AQGH>v}iry<7o%09jr4Mv=qVKk@!G@u=w+!~*-F*X=^P5|Ver^8j{`v3E8(ic3-iqZF@3awpgE!9aJ
TZIz(6?gaFJFB=^7ch>$!90#9Q@|Gmf^*#)s1gnC=Ji~;vwOW<KmgNE5qHn-Qqg9Ss2;!b;;j9Yujk|>F@T6H$8b@_Zxi|OUGBXoILmH?$Va=p`r1yf&1U
uS?J=HjhAj)bnltuuUkvQZIP!tZah^w?Ba_@J^ZU4{+dbn?)XvkCN0;dpXpm~{8jtEg;Ot{Io|i?mcP4h{o>Ql#nzt^_bcP?y|!tgc%gCD(U-I%;*JHo&h
_t|5cg#6y#2w6OX9k#2cJJOFi^VZ{OXrmhxUp6M^aa3Z#XaBIx;4V=Eudg9!}$>9|+D#59d&%ua#-KEFOMwWa|s_hQw6!#Lufb&xx;J9(#6d^;R*n{Yz(K
(+A?{u4g(fuG=lP&)swVsl6w~)JLB#yX&_D;>UMvZ}@~dCN9{wbJdl(JH&~lyEe7<pA|p+sdM?_4d07@0^$DAg#
"""


def test_files_of_the_first_version_are_read(tmp_path):
    (tmp_path / "model.dyad").write_bytes(zlib.decompress(base64.b85decode(FIRST.replace("\n", ""))))
    loaded = load(tmp_path / "model.dyad")
    same = TwoStepRidgeCV([0.1, 1.0, 10.0], (0.5, 1e6, 1e9), setting="B", kernel="rbf", kernel_params={"gamma": 0.5})
    same.fit(X, Y, tasks=T)
    np.testing.assert_allclose(loaded.predict(X, tasks=T), same.predict(X, tasks=T), rtol=1e-9)
    np.testing.assert_allclose(loaded.holdout("D"), same.holdout("D"), rtol=1e-9)
    assert loaded.get_params() == same.get_params()
