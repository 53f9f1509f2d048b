"""The commands: their options and their help. The modules that run them are imported only when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from typer import Argument, Option

from dyadlearn import _registry
from dyadlearn.cli import options
from dyadlearn.cli.options import MODELS, OF_MODELS, PAGES, SCORES, Rules, written_options

_COLUMN = "[NAME=]COLUMN"
# Options of tune for labels of cells.
_OF_CELLS: tuple[str, ...] = (
    "labels",
    "label",
    "terms",
    "entities",
    "fixed",
    "weights",
    "symmetric",
    "model",
)
_OF_CELLS += ("kernel", "intercept", "device", "setting", "scoring", "output", "force")
_GROUPS = "a table of id, group; identical; similar:0.6; or scaffold, of SMILES."


class Demo(options.Options, module="demo"):
    """Try everything once, on Debian packages and tags.

    Three models are tuned, the likeliest missing tags are listed, and a report is written. This
    takes about ten seconds and needs no network.

    For example:

        dyadlearn demo
    """

    output: Annotated[Path, Option("--output", "-o", help="The page to write.")] = Path(
        "report.html"
    )
    force: options.Force = False

    endings: ClassVar[tuple[str, ...]] = PAGES


class Datasets(options.Options, module="demo"):
    """List real data to try, or download one of them.

    With a name, the data set is downloaded unless it is there already, and written as tables if
    --to is given.

    For example:

        dyadlearn datasets

        dyadlearn datasets nr --to nr

        dyadlearn tune nr/labels.csv --instances nr/instances.csv --tasks nr/tasks.csv --setting D
        -o nr.dyad
    """

    name: Annotated[str | None, Argument(metavar="NAME", help="The data set to download.")] = None
    to: Annotated[
        Path | None, Option(help="Folder to write labels.csv, instances.csv and tasks.csv to.")
    ] = None
    data_home: Annotated[
        Path | None, Option(help="Folder of downloads; default $DYADLEARN_DATA or a cache.")
    ] = None
    force: options.Force = False

    needs: ClassVar[Rules] = {"to": ("name",), "force": ("to",)}


class Tune(options.Structures, options.Cells, options.LabelFile, options.Sides, module="tune"):
    """Fit a model and choose its regularisation or kernels.

    The choice is made by exact hold-out predictions. The output has the score of the model beside
    those of baselines, which do not use the features. Without --model, two-step and Kronecker ridge
    are both tried where that takes little time; a line says which one is kept, and why.

    Where labels are missing, a coarse search is followed by a finer one. Ctrl-C writes the best
    model so far, with exit code 130.

    --model pair adds a function for each known instance and task, and chooses their weights.
    --model learned learns the weight of each file that describes a side. If a side has several
    files, give each a name; files of new instances and tasks need the same names.

    For example:

        dyadlearn tune labels.csv --instances targets.csv --tasks drugs.csv --setting D -o
        model.dyad

        dyadlearn tune ratings.csv --instances users.parquet --tasks items.parquet --columns
        user,item,stars -o m.dyad

        dyadlearn tune binds.csv --instances proteins.h5 --tasks molecules.parquet --setting D -o
        model.dyad

        dyadlearn tune binds.csv --instances proteins.fasta --tasks drugs.csv --tasks-smiles smiles
        -o model.dyad

        dyadlearn tune infects.csv --instances hosts.csv --tasks parasites.csv --sides host,parasite
        -o model.dyad

        dyadlearn tune binds.csv --model learned --instances ecfp=drugs.csv --instances
        sim=kernel.csv -o model.dyad

    One table may hold everything: --smiles, --sequence and --label name its columns. The first
    column is that of the instances, the second that of the tasks; SMILES come before sequences.
    Equal structures are one instance or task.

        dyadlearn tune table.csv --smiles drug_smiles --sequence target_seq --label y -o model.dyad

    Labels of three or more sides are in one table too. --terms names their effects, and each
    variance maximises the restricted likelihood or, with --setting, minimises the held-out error
    with these sides new, such as mother or mother+father.

        dyadlearn tune trial.csv --terms "mother + father + mother:father" --entities
        mother=markers.csv --fixed trial --label yield -o model.dyad
    """

    labels: Annotated[
        Path,
        Argument(metavar="LABELS", help="A grid of instances × tasks, or a long table of pairs."),
    ]
    instances: options.Instances = None
    tasks: options.Tasks = None
    label: Annotated[
        str | None, Option(metavar="COLUMN", help="One table: its column of labels.")
    ] = None
    output: Annotated[
        Path, Option("--output", "-o", help="The model file to write, usually model.dyad.")
    ]
    force: options.Force = False
    instances_smiles: Annotated[
        options.Files, Option(metavar=_COLUMN, help="SMILES column of --instances.")
    ] = None
    tasks_smiles: Annotated[
        options.Files, Option(metavar=_COLUMN, help="SMILES column of --tasks.")
    ] = None
    fingerprint: options.Fingerprint = None
    drop_invalid: Annotated[
        bool, Option(help="Leave out SMILES and sequences that cannot be read.")
    ] = False
    model: Annotated[
        str | None,
        Option(
            help=f"One of {', '.join(MODELS)}, or multiway for --terms; by default the better of "
            f"two-step and kronecker."
        ),
    ] = None
    kernel: options.Kernel = None
    task_kernel: Annotated[
        options.Files, Option(metavar="[NAME=]KERNEL", help="Kernel of the tasks.")
    ] = None
    intercept: Annotated[
        bool, Option(help="Fit a mean and main effects of both sides, or not.")
    ] = True
    device: Annotated[
        str | None, Option(help="Device to compute on: cuda is a GPU, by torch or cupy.")
    ] = None
    setting: options.Setting = "B"
    scoring: Annotated[
        str | None, Option(help=f"Score; by default roc_auc or squared error. One of {SCORES}.")
    ] = None
    average: options.Average = None
    alphas: Annotated[
        str | None,
        Option(
            help="Regularisations: 0.1,1,10 or 1e-3:1e3:7; default 1e-7 to 1e6 times the scale of "
            "the kernel."
        ),
    ] = None
    task_alphas: Annotated[
        str | None, Option(help="Regularisations of the tasks; by default --alphas.")
    ] = None
    constants: Annotated[
        str | None,
        Option(
            help="--model kronecker or pair: constants to add to both kernels, as 0.1,1,10: "
            "weights of main effects."
        ),
    ] = None
    shares: Annotated[
        list[str] | None,
        Option(
            metavar="A,B,C",
            help="--model pair: weights of the product kernel, of a function for each task and of "
            "one for each instance, such as 2,1,1; repeatable; default ten triples.",
        ),
    ] = None
    cv: options.Folds = None
    method: options.Method = None
    groups: Annotated[Path | None, Option(help=f"Instances to leave out together: {_GROUPS}")] = (
        None
    )
    task_groups: Annotated[Path | None, Option(help=f"Tasks to leave out together: {_GROUPS}")] = (
        None
    )
    exhaustive: Annotated[
        bool, Option(help="Score all regularisations, also if labels are missing.")
    ] = False
    keep_labels: Annotated[
        bool, Option(help="--model online: keep labels for update --known replace.")
    ] = False
    stages: Annotated[
        str, Option(help="--model learned: maximum number of stages; auto is 3 in A, else 1.")
    ] = "auto"
    steps: Annotated[
        int, Option(min=1, help="--model learned: maximum number of steps of each descent.")
    ] = 60
    shrinkage: Annotated[
        float, Option(help="--model learned: penalty on unequal weights; 0 is none.")
    ] = 0.1
    normalize: Annotated[
        bool, Option(help="--model learned: scale kernels to a unit diagonal, or to mean 1.")
    ] = True
    seed: Annotated[
        int | None, Option(min=0, help="--model learned: seed of the folds to learn from.")
    ] = None

    needs: ClassVar[Rules] = dict.fromkeys(
        ("task_kernel", "tasks_smiles", "task_groups", "task_alphas"), ("tasks",)
    )
    needs |= {"instances_smiles": ("instances",)}
    needs |= dict.fromkeys(("entities", "fixed", "weights", "symmetric"), ("terms",))

    @property
    def has_cells(self) -> bool:
        """Whether labels belong to cells of any number of sides."""
        return self.terms is not None or self.model == "multiway"

    @property
    def models(self) -> tuple[str, ...]:
        """The models to try: by default those that have all given options."""
        if self.model is not None:
            return (self.model,)
        if self.id_column:
            return ("independent",)
        models: tuple[str, ...] = options.COMPARED
        for name in ("task_alphas", "constants"):
            if getattr(self, name) is not None:
                models = tuple(model for model in models if model in OF_MODELS[name])
        return models

    def check(self) -> None:
        """Raise if the model is unknown or lacks its tasks, or if it does not have an option that is given."""
        super().check()
        if self.has_cells:
            self._check_cells()
            return
        self._check_structures()
        name = self.model
        if name is not None and name not in MODELS:
            raise ValueError(f"--model is one of {', '.join(MODELS)}, found {name!r}.")
        options.check_scores(self.average, self.method)
        if not self.models:
            raise ValueError(
                "--task-alphas and --constants are of different models: leave one of them out."
            )
        self._check_tasks()
        self._check_options_of_models()
        if self.fingerprint and not (self.instances_smiles or self.tasks_smiles or self.smiles):
            raise ValueError(
                "--fingerprint goes with --instances-smiles, --tasks-smiles or --smiles: add one, "
                "or leave it out."
            )

    def has(self, name: str) -> bool:
        """Return whether an option is given; tasks may be described in one table too."""
        is_in_table = name == "tasks" and [kind for kind, _ in self.structures[1:]] not in (
            [],
            ["ids"],
        )
        return is_in_table or super().has(name)

    def _check_cells(self) -> None:
        """Raise if labels of cells lack what they need, or if an option is not for them."""
        if self.terms is None or self.model not in (None, "multiway"):
            raise ValueError(
                "--terms and --model multiway belong together: give the terms, such as 'mother + "
                "father + mother:father', and no other model."
            )
        options.refuse(self, _OF_CELLS, "is for pairs, and --terms for cells of other sides")
        if self.label is None:
            raise ValueError("Name the column of the labels by --label.")

    def _check_structures(self) -> None:
        """Raise unless the instances are described, by files or by columns of one table."""
        columns = self.structures
        if not columns and self.label is None:
            if not self.instances:
                raise ValueError(
                    "Give the instances by --instances, or name columns of the table by --smiles, "
                    "--sequence and --label."
                )
            return
        in_files = ("instances", "tasks", "columns", "format", "transpose")
        for option in written_options(*in_files):
            raise ValueError(
                f"{option} is for labels and sides in several files: leave it out beside "
                f"--smiles, --sequence, --id and --label."
            )
        if len(columns) != 2 or columns[0][0] == "ids":
            raise ValueError(
                "Name the columns of both sides of the table: two of --smiles and --sequence, or "
                "one of them and --id."
            )
        if self.label is None:
            raise ValueError("Name the column of the labels by --label.")

    def _check_tasks(self) -> None:
        """Raise if the model needs tasks and has none."""
        if self.has("tasks") or not _registry.MODELS[self.models[0]].needs_tasks:
            return
        if self.model:
            which = f"The {self.model} model learns"
        else:
            which = "Two-step and Kronecker ridge learn"
        raise ValueError(f"{which} from tasks: give them by --tasks, or use --model independent.")

    def _check_options_of_models(self) -> None:
        """Raise if an option is given that none of the models to try has."""
        if self.model is None:
            which = "tune without --model"
        else:
            which = f"--model {self.model}"
        for parameter, having in OF_MODELS.items():
            if set(self.models) & set(having):
                continue
            for option in written_options(parameter):
                raise ValueError(
                    f"{which} has no option {option}: use it with --model {' or '.join(having)}."
                )


class Evaluate(options.OfModel, options.TableOutput, module="evaluate"):
    """Score, compare, test or verify a model.

    Scores are those of exact hold-out predictions for new pairs, instances, tasks, and both, beside
    baselines. Baselines are the mean of all labels (grand), of the instance, of the task, and the
    sum of both effects (additive), held out in the same way; --json has all of them.

    --against compares models on the same labels; differences have simultaneous intervals.
    --permutations tests whether the model is better than on permuted labels; a tuned model is tuned
    again for each permutation. --verify compares hold-out predictions with those of refitted
    models. A model with learned kernels learns them again for each fold.

    For example:

        dyadlearn evaluate model.dyad --verify

        dyadlearn evaluate model.dyad --scoring roc_auc --scoring average_precision --json

        dyadlearn evaluate two_step.dyad --against kronecker.dyad --setting B

        dyadlearn evaluate model.dyad --permutations 99 --setting D
    """

    setting: options.Settings = None
    scoring: options.Scoring = None
    average: options.Average = None
    by: Annotated[
        str | None,
        Option(help="setting: score the pairs of each actual setting apart, in sparse tables."),
    ] = None
    cv: options.Folds = None
    method: options.Method = None
    against: Annotated[
        list[Path] | None, Option(metavar="MODEL", help="Another model to compare with.")
    ] = None
    resamples: Annotated[int, Option(min=10, help="Number of bootstrap samples of --against.")] = (
        1000
    )
    coverage: Annotated[float, Option(help="Coverage of the intervals of --against.")] = 0.95
    permutations: Annotated[
        int | None, Option(min=1, help="Number of permutations of a permutation test.")
    ] = None
    permute: Annotated[
        str | None, Option(help="instances, tasks or both; by default the new side.")
    ] = None
    verify: Annotated[bool, Option(help="Compare hold-out predictions with refitted models.")] = (
        False
    )
    number: Annotated[
        int, Option("-n", "--number", min=1, help="Cells to refit for --verify, in each setting.")
    ] = 20
    nested: options.Nested = True
    seed: options.Seed = 0

    needs: ClassVar[Rules] = {"number": ("verify",), "permute": ("permutations",)}
    needs |= dict.fromkeys(("resamples", "coverage"), ("against",))
    excludes: ClassVar[Rules] = {"permutations": ("verify", "cv", "method", "nested", "by")}
    excludes["permutations"] += ("average",)
    excludes["against"] = ("permutations", "verify", "cv", "method", "nested", "by")

    def check(self) -> None:
        """Raise if the method is unknown, or if an option has no effect."""
        super().check()
        options.check_scores(self.average, self.method)
        if self.by not in (None, "setting"):
            raise ValueError(f"--by is setting, found {self.by!r}.")


class Audit(options.Structures, options.TableOutput, module="audit"):
    """Check which setting a split is, and what leaks.

    Give the tables of a split in the order of their use, such as training, validation and test; or
    one table and --split, its column of the names of the parts. Each part is compared with every
    earlier one. Pairs are in the first two columns, or in those of --columns; or they are
    structures, in the columns of --smiles and --sequence, as for tune.

    With structures, or descriptions by --instances and --tasks, new entities that are copies of one
    in training are named. A histogram shows the largest similarity of test entities to training: the
    normalised kernel. --label and --prediction add the score of each band of similarity.

    For a model file that ends in .dyad, the same is shown for its hold-out.

    For example:

        dyadlearn audit train.csv test.csv --setting D

        dyadlearn audit table.csv --split fold --smiles drug_smiles --sequence target_seq --setting D

        dyadlearn audit train.csv test.csv --columns user,item --time date -o pairs.csv

        dyadlearn audit model.dyad --setting BD
    """

    sources: Annotated[
        list[Path], Argument(metavar="TABLE", help="Parts of a split, or a model file.")
    ]
    split: Annotated[
        str | None, Option(metavar="COLUMN", help="Column of the name of each row's part.")
    ] = None
    columns: Annotated[
        str | None, Option(help="Columns of the pairs, such as user,item or 1,2; default 1,2.")
    ] = None
    setting: Annotated[
        str | None,
        Option(
            help="The setting that the split should be; for a model those of hold-outs to show."
        ),
    ] = None
    time: Annotated[
        str | None, Option(metavar="COLUMN", help="Column of dates: are test pairs later?")
    ] = None
    label: Annotated[str | None, Option(metavar="COLUMN", help="Column of the labels.")] = None
    prediction: Annotated[
        str | None, Option(metavar="COLUMN", help="Column of predictions, to score by similarity.")
    ] = None
    scoring: Annotated[
        str | None,
        Option(
            metavar="SCORE", help=f"Score; by default roc_auc or squared error. One of {SCORES}."
        ),
    ] = None
    instances: options.Instances = None
    tasks: options.Tasks = None
    instances_smiles: Annotated[
        options.Files, Option(metavar="COLUMN", help="SMILES column of --instances.")
    ] = None
    tasks_smiles: Annotated[
        options.Files, Option(metavar="COLUMN", help="SMILES column of --tasks.")
    ] = None
    fingerprint: options.Fingerprint = None
    kernel: options.Kernel = None
    task_kernel: Annotated[options.Files, Option(metavar="KERNEL", help="Kernel of the tasks.")] = (
        None
    )

    needs: ClassVar[Rules] = {
        "prediction": ("label",),
        "instances_smiles": ("instances",),
        "tasks_smiles": ("tasks",),
    }
    # What tune has besides, for the functions that read descriptions.
    model: ClassVar[str | None] = None
    device: ClassVar[str | None] = None
    drop_invalid: ClassVar[bool] = False

    @property
    def is_of_model(self) -> bool:
        """Whether the hold-out of a model is asked for, and not a split."""
        return self.sources[0].suffix == ".dyad"

    def check(self) -> None:
        """Raise if there are not two parts, or if options exclude each other."""
        super().check()
        if self.is_of_model:
            mine = ("sources", "setting", "scoring", "output", "force", "sides", "json", "quiet")
            others = [name for name in vars(self) if name not in mine]
            for option in written_options(*others):
                raise ValueError(
                    f"{option} is for a split in tables: leave it out for a model file."
                )
            if len(self.sources) > 1:
                raise ValueError("Give one model file, or the tables of a split.")
            return
        if self.split is None and len(self.sources) < 2:
            raise ValueError(
                "Give two tables or more, training first, or name the parts by --split."
            )
        if self.split is not None and len(self.sources) > 1:
            raise ValueError("--split is for one table that holds all parts: give one table.")
        if self.structures:
            for option in written_options("columns", "instances", "tasks"):
                raise ValueError(f"{option} has no effect beside --smiles, --sequence and --id.")
            if len(self.structures) != 2:
                raise ValueError(
                    "Name the columns of both sides: two of --smiles, --sequence and --id."
                )


class Predict(options.OfModel, options.TableOutput, options.LabelFile, module="predict"):
    """Predict for new instances, new tasks, or both.

    Without --instances (or --tasks), predictions are for the instances (or tasks) of training. A
    file of features needs the columns of the training file. A file of a kernel needs one column for
    each id of training. Named files of a learned model need the names of training; some of these
    files may be missing.

    --labels adds known labels of the new instances, or of the new tasks, as if the model were
    fitted again with them. Each new instance is added alone: its labels do not change the
    predictions for the others.

    --explain lists the training labels that one prediction comes from: by pair, by instance and by
    task. Each list sums to the prediction. --sort weight also lists labels of zero, which explain a
    low prediction.

    --table takes a table with the columns of structures that the model was tuned on. Its rows may
    mix known and new structures. Each row gets its setting, its prediction and an interval, by
    default of coverage 0.9, or a probability if the labels have two values. A row that cannot be
    predicted gets the reason instead.

    For example:

        dyadlearn predict model.dyad --instances new_targets.csv -o predictions.csv

        dyadlearn predict model.dyad --instances new_targets.csv --tasks new_drugs.csv --long -o
        predictions.csv

        dyadlearn predict model.dyad --tasks new_drugs.csv --pairs wanted.csv

        dyadlearn predict ratings.dyad --pairs wanted.csv --clip 1,5 --baseline

        dyadlearn predict model.dyad --instances new_targets.csv --probability -o probabilities.csv

        dyadlearn predict model.dyad --instances new_targets.csv --interval 0.9 -o bounds.csv

        dyadlearn predict model.dyad --instances ecfp=new_drugs.csv --instances sim=new_rows.csv -o
        predictions.csv

        dyadlearn predict model.dyad --instances new_targets.csv --labels few.csv -o predictions.csv

        dyadlearn predict model.dyad --table wanted.csv -o predictions.csv

        dyadlearn predict model.dyad --explain --instance hsa2099 --task D00348

        dyadlearn predict model.dyad --explain --instances new_targets.csv --instance hsa5468 --task
        D00348 --json

    A model of --terms takes --table with the columns of its sides and fixed effects, or one --cell
    to explain:

        dyadlearn predict model.dyad --explain --cell mother=m1,father=f2,trial=t3
    """

    instances: options.Instances = None
    tasks: options.Tasks = None
    pairs: Annotated[Path | None, Option(help="Only these pairs: a table of instance, task.")] = (
        None
    )
    table: Annotated[
        Path | None,
        Option(help="One table of known and new structures, for a model that was tuned on one."),
    ] = None
    labels: Annotated[
        Path | None, Option(help="Known labels of the new rows: a grid, or a table of pairs.")
    ] = None
    long: Annotated[bool, Option(help="Write rows of instance, task, prediction.")] = False
    probability: Annotated[
        bool, Option(help="Predict the probability of the larger of two labels.")
    ] = False
    prevalence: options.Prevalence = None
    interval: Annotated[
        float | None, Option(help="Write rows with bounds of this coverage, such as 0.9.")
    ] = None
    clip: options.Clip = None
    baseline: Annotated[
        bool, Option(help="Predict pairs with an unknown id by means of labels.")
    ] = False
    explain: Annotated[
        bool, Option(help="List the training labels that a prediction comes from.")
    ] = False
    instance: Annotated[
        str | None, Option(metavar="ID", help="Instance to explain: of training, or of a file.")
    ] = None
    task: Annotated[
        str | None, Option(metavar="ID", help="Task to explain: of training, or of a file.")
    ] = None
    cell: Annotated[
        str | None,
        Option(metavar="SIDE=ID,...", help="Cell to explain, for a model of --terms."),
    ] = None
    by: Annotated[
        str,
        Option(
            help="List that --explain -o writes: by pair, instance or task; by label, term or side."
        ),
    ] = "pair"
    sort: Annotated[
        str, Option(help="What --explain lists first: the largest contribution, or weight.")
    ] = "contribution"
    number: options.Number = 10

    needs: ClassVar[Rules] = {
        "by": ("explain", "output"),
        "baseline": ("pairs",),
    }
    needs |= dict.fromkeys(("instance", "task", "cell", "number", "sort"), ("explain",))
    needs |= dict.fromkeys(("format", "columns", "fill", "transpose"), ("labels",))
    excludes: ClassVar[Rules] = {
        "explain": ("pairs", "long", "probability", "interval", "labels", "clip")
    }
    excludes |= {
        "probability": ("interval", "labels", "clip", "baseline"),
        "interval": ("labels", "baseline"),
        "table": (
            "instances",
            "tasks",
            "pairs",
            "labels",
            "long",
            "probability",
            "baseline",
            "clip",
        ),
    }

    def check(self) -> None:
        """Raise if an option has no effect."""
        super().check()
        if self.interval is not None and not 0 < self.interval < 1:
            raise ValueError(
                f"--interval must be a coverage between 0 and 1, such as 0.9, found "
                f"{self.interval:g}."
            )
        if not (self.probability or self.table):
            for option in written_options("prevalence"):
                raise ValueError(
                    f"{option} goes with --probability: add it, or leave {option} out."
                )


class Recommend(options.OfModel, options.TableOutput, module="predict"):
    """List the best pairs that are not observed.

    These are the best tasks for an instance, the best instances for a task, or the best pairs of
    all.

    For example:

        dyadlearn recommend model.dyad --for hsa2099 -n 5

        dyadlearn recommend model.dyad --for D00348 --json

        dyadlearn recommend model.dyad --new new_targets.csv -o wanted.csv

        dyadlearn recommend model.dyad --pairs -n 100

        dyadlearn recommend model.dyad --pairs --per-instance 2 --by upper --probability
    """

    subject: Annotated[
        str | None, Option("--for", metavar="ID", help="A known instance or task.")
    ] = None
    new: Annotated[
        options.Files, Option(metavar="[NAME=]FILE", help="New instances, or tasks by --side task.")
    ] = None
    pairs: Annotated[bool, Option(help="List the best of all pairs that are not observed.")] = False
    number: Annotated[
        int | None, Option("-n", "--number", min=1, help="List length; default 10, or 20 pairs.")
    ] = None
    side: Annotated[
        str | None, Option(help="instance or task, if the id or the file could be either.")
    ] = None
    setting: options.Setting = "A"
    zeros: Annotated[
        bool | None, Option(help="Treat zeros as not observed; default if all pairs are 0 or 1.")
    ] = None
    observed: Annotated[
        bool, Option(help="List observed pairs too, predicted without their labels.")
    ] = False
    by: Annotated[
        str, Option(help="Rank by score, or by the upper or lower bound of the interval.")
    ] = "score"
    coverage: Annotated[float, Option(help="Coverage of the intervals of --by.")] = 0.9
    probability: Annotated[
        bool, Option(help="Add the probability of the larger of two labels.")
    ] = False
    prevalence: options.Prevalence = None
    per_instance: Annotated[
        int | None, Option(min=1, help="Maximum number of pairs, or of lists, of an instance.")
    ] = None
    per_task: Annotated[
        int | None, Option(min=1, help="Maximum number of pairs, or of lists, of a task.")
    ] = None
    clip: options.Clip = None
    cv: options.Folds = None

    needs: ClassVar[Rules] = {"prevalence": ("probability",)}
    excludes: ClassVar[Rules] = {"pairs": ("side",), "new": ("setting", "zeros", "observed", "cv")}
    excludes |= {"observed": ("zeros",)}

    def check(self) -> None:
        """Raise if an option has no effect."""
        super().check()
        if self.by == "score":
            for option in options.written_options("coverage"):
                raise ValueError(
                    f"{option} goes with --by lower or --by upper: add it, or leave {option} out."
                )


class Screen(options.OfModel, options.TableOutput, module="predict"):
    """List the labels that look most wrong.

    These are the labels that held-out predictions contradict most: the first to check for mistakes.

    For example:

        dyadlearn screen model.dyad

        dyadlearn screen model.dyad --label 0 -n 100 -o suspicious.csv
    """

    number: options.Number = 20
    setting: options.Setting = "A"
    label: Annotated[float | None, Option(help="List only cells with this label, such as 0.")] = (
        None
    )
    cv: options.Folds = None


class Update(options.LabelFile, options.OfModel, module="update"):
    """Add instances, tasks or labels to an online model.

    Without --output the model file is replaced, after everything succeeded. To fit an online model,
    use: dyadlearn tune … --model online

    For example:

        dyadlearn update model.dyad --instances new_users.csv --labels new_ratings.csv

        dyadlearn update model.dyad --tasks new_items.csv --instances all_users.csv --labels
        their_ratings.csv

        dyadlearn update model.dyad --instances all_users.csv --labels ratings_of_today.csv --known
        replace
    """

    labels: Annotated[
        Path, Option(help="Labels of the new instances or tasks: a grid or a long table.")
    ]
    instances: Annotated[
        Path | None, Option(help="New instances; with --tasks, the known instances.")
    ] = None
    tasks: Annotated[Path | None, Option(help="New tasks, labelled for all known instances.")] = (
        None
    )
    output: Annotated[
        Path | None, Option("--output", "-o", help="Model file to write instead of the old one.")
    ] = None
    known: Annotated[
        str, Option(help="If instances are known already: error, or replace their labels.")
    ] = "error"
    force: options.Force = False

    in_place: ClassVar[tuple[str, ...]] = ("source",)


class Inspect(options.OfModel, module="evaluate"):
    """Show the content of a model file.

    The output lists the model, its parameters and scores, its files of data, and how they were
    read.

    For example:

        dyadlearn inspect model.dyad
    """


class Report(options.OfModel, module="evaluate"):
    """Write an HTML report about a model.

    The report is one page that opens in any browser, without a network.

    For example:

        dyadlearn report model.dyad -o report.html --title "Nuclear receptors"
    """

    output: Annotated[Path, Option("--output", "-o", help="The page to write.")] = Path(
        "report.html"
    )
    title: Annotated[str | None, Option(help="The heading.")] = None
    names: Annotated[
        options.Paths, Option(metavar="FILE", help="Names of ids: FASTA, or a table of id, name.")
    ] = None
    setting: options.Settings = None
    scoring: Annotated[
        str | None, Option(help=f"Score; by default that of the search. One of {SCORES}.")
    ] = None
    permutations: Annotated[
        int, Option(min=0, help="Number of permutations of the labels for a null score.")
    ] = 0
    nested: options.Nested = True
    force: options.Force = False

    endings: ClassVar[tuple[str, ...]] = PAGES
