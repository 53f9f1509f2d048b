"""The commands: their options and their help. The modules that run them are imported only when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from typer import Argument, Option

from dyadlearn import _registry
from dyadlearn.cli.options import (
    COMPARED,
    MODELS,
    OF_MODELS,
    PAGES,
    SCORES,
    Average,
    Cells,
    Clip,
    Files,
    Fingerprint,
    Folds,
    Force,
    Instances,
    Kernel,
    LabelFile,
    Method,
    Nested,
    Number,
    OfModel,
    Options,
    Paths,
    Prevalence,
    Rules,
    Scoring,
    Seed,
    Setting,
    Settings,
    Sides,
    Structures,
    TableOutput,
    Tasks,
    check_scores,
    option,
    refuse,
    written_options,
)

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


class Demo(Options, module="demo"):
    """Try everything once, on Debian packages and tags.

    Three models are tuned, the likeliest missing tags are listed, and a report is written. This
    takes about ten seconds and needs no network.

    For example:

        dyadlearn demo
    """

    output: Path = option("The page to write.", "--output", "-o", default=Path("report.html"))
    force: Force = False

    endings: ClassVar[tuple[str, ...]] = PAGES


class Datasets(Options, module="demo"):
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
    to: Path | None = option("Folder to write labels.csv, instances.csv and tasks.csv to.")
    data_home: Path | None = option("Folder of downloads; default $DYADLEARN_DATA or a cache.")
    force: Force = False

    needs: ClassVar[Rules] = {"to": ("name",), "force": ("to",)}


class Tune(Structures, Cells, LabelFile, Sides, module="tune"):
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
    instances: Instances = None
    tasks: Tasks = None
    label: str | None = option("One table: its column of labels.", metavar="COLUMN")
    output: Annotated[
        Path, Option("--output", "-o", help="The model file to write, usually model.dyad.")
    ]
    force: Force = False
    instances_smiles: Files = option("SMILES column of --instances.", metavar=_COLUMN)
    tasks_smiles: Files = option("SMILES column of --tasks.", metavar=_COLUMN)
    fingerprint: Fingerprint = None
    drop_invalid: bool = option(
        "Leave out SMILES and sequences that cannot be read.", default=False
    )
    model: str | None = option(
        f"One of {', '.join(MODELS)}, or multiway for --terms; by default the better of "
        f"two-step and kronecker."
    )
    kernel: Kernel = None
    task_kernel: Files = option("Kernel of the tasks.", metavar="[NAME=]KERNEL")
    intercept: bool = option("Fit a mean and main effects of both sides, or not.", default=True)
    device: str | None = option("Device to compute on: cuda is a GPU, by torch or cupy.")
    setting: Setting = "B"
    scoring: str | None = option(f"Score; by default roc_auc or squared error. One of {SCORES}.")
    average: Average = None
    alphas: str | None = option(
        "Regularisations: 0.1,1,10 or 1e-3:1e3:7; default 1e-7 to 1e6 times the scale of "
        "the kernel."
    )
    task_alphas: str | None = option("Regularisations of the tasks; by default --alphas.")
    constants: str | None = option(
        "--model kronecker or pair: constants to add to both kernels, as 0.1,1,10: "
        "weights of main effects."
    )
    shares: list[str] | None = option(
        "--model pair: weights of the product kernel, of a function for each task and of "
        "one for each instance, such as 2,1,1; repeatable; default ten triples.",
        metavar="A,B,C",
    )
    cv: Folds = None
    method: Method = None
    groups: Path | None = option(f"Instances to leave out together: {_GROUPS}")
    task_groups: Path | None = option(f"Tasks to leave out together: {_GROUPS}")
    exhaustive: bool = option(
        "Score all regularisations, also if labels are missing.", default=False
    )
    keep_labels: bool = option(
        "--model online: keep labels for update --known replace.", default=False
    )
    stages: str = option(
        "--model learned: maximum number of stages; auto is 3 in A, else 1.", default="auto"
    )
    steps: int = option(
        "--model learned: maximum number of steps of each descent.", default=60, min=1
    )
    shrinkage: float = option(
        "--model learned: penalty on unequal weights; 0 is none.", default=0.1
    )
    normalize: bool = option(
        "--model learned: scale kernels to a unit diagonal, or to mean 1.", default=True
    )
    seed: int | None = option("--model learned: seed of the folds to learn from.", min=0)

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
        models: tuple[str, ...] = COMPARED
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
        check_scores(self.average, self.method)
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
        refuse(self, _OF_CELLS, "is for pairs, and --terms for cells of other sides")
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
        for written in written_options(*in_files):
            raise ValueError(
                f"{written} is for labels and sides in several files: leave it out beside "
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
            for written in written_options(parameter):
                raise ValueError(
                    f"{which} has no option {written}: use it with --model {' or '.join(having)}."
                )


class Evaluate(OfModel, TableOutput, module="evaluate"):
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

    setting: Settings = None
    scoring: Scoring = None
    average: Average = None
    by: str | None = option(
        "setting: score the pairs of each actual setting apart, in sparse tables."
    )
    cv: Folds = None
    method: Method = None
    against: list[Path] | None = option("Another model to compare with.", metavar="MODEL")
    resamples: int = option("Number of bootstrap samples of --against.", default=1000, min=10)
    coverage: float = option("Coverage of the intervals of --against.", default=0.95)
    permutations: int | None = option("Number of permutations of a permutation test.", min=1)
    permute: str | None = option("instances, tasks or both; by default the new side.")
    verify: bool = option("Compare hold-out predictions with refitted models.", default=False)
    number: int = option(
        "Cells to refit for --verify, in each setting.", "-n", "--number", default=20, min=1
    )
    nested: Nested = True
    seed: Seed = 0

    needs: ClassVar[Rules] = {"number": ("verify",), "permute": ("permutations",)}
    needs |= dict.fromkeys(("resamples", "coverage"), ("against",))
    excludes: ClassVar[Rules] = {"permutations": ("verify", "cv", "method", "nested", "by")}
    excludes["permutations"] += ("average",)
    excludes["against"] = ("permutations", "verify", "cv", "method", "nested", "by")

    def check(self) -> None:
        """Raise if the method is unknown, or if an option has no effect."""
        super().check()
        check_scores(self.average, self.method)
        if self.by not in (None, "setting"):
            raise ValueError(f"--by is setting, found {self.by!r}.")


class Audit(Structures, TableOutput, module="audit"):
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
    split: str | None = option("Column of the name of each row's part.", metavar="COLUMN")
    columns: str | None = option("Columns of the pairs, such as user,item or 1,2; default 1,2.")
    setting: str | None = option(
        "The setting that the split should be; for a model those of hold-outs to show."
    )
    time: str | None = option("Column of dates: are test pairs later?", metavar="COLUMN")
    label: str | None = option("Column of the labels.", metavar="COLUMN")
    prediction: str | None = option(
        "Column of predictions, to score by similarity.", metavar="COLUMN"
    )
    scoring: str | None = option(
        f"Score; by default roc_auc or squared error. One of {SCORES}.", metavar="SCORE"
    )
    instances: Instances = None
    tasks: Tasks = None
    instances_smiles: Files = option("SMILES column of --instances.", metavar="COLUMN")
    tasks_smiles: Files = option("SMILES column of --tasks.", metavar="COLUMN")
    fingerprint: Fingerprint = None
    kernel: Kernel = None
    task_kernel: Files = option("Kernel of the tasks.", metavar="KERNEL")

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
            for written in written_options(*others):
                raise ValueError(
                    f"{written} is for a split in tables: leave it out for a model file."
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
            for written in written_options("columns", "instances", "tasks"):
                raise ValueError(f"{written} has no effect beside --smiles, --sequence and --id.")
            if len(self.structures) != 2:
                raise ValueError(
                    "Name the columns of both sides: two of --smiles, --sequence and --id."
                )


class Predict(OfModel, TableOutput, LabelFile, module="predict"):
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

    instances: Instances = None
    tasks: Tasks = None
    pairs: Path | None = option("Only these pairs: a table of instance, task.")
    table: Path | None = option(
        "One table of known and new structures, for a model that was tuned on one."
    )
    labels: Path | None = option("Known labels of the new rows: a grid, or a table of pairs.")
    long: bool = option("Write rows of instance, task, prediction.", default=False)
    probability: bool = option(
        "Predict the probability of the larger of two labels.", default=False
    )
    prevalence: Prevalence = None
    interval: float | None = option("Write rows with bounds of this coverage, such as 0.9.")
    clip: Clip = None
    baseline: bool = option("Predict pairs with an unknown id by means of labels.", default=False)
    explain: bool = option("List the training labels that a prediction comes from.", default=False)
    instance: str | None = option("Instance to explain: of training, or of a file.", metavar="ID")
    task: str | None = option("Task to explain: of training, or of a file.", metavar="ID")
    cell: str | None = option("Cell to explain, for a model of --terms.", metavar="SIDE=ID,...")
    by: str = option(
        "List that --explain -o writes: by pair, instance or task; by label, term or side.",
        default="pair",
    )
    sort: str = option(
        "What --explain lists first: the largest contribution, or weight.", default="contribution"
    )
    number: Number = 10

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
            for written in written_options("prevalence"):
                raise ValueError(
                    f"{written} goes with --probability: add it, or leave {written} out."
                )


class Recommend(OfModel, TableOutput, module="predict"):
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

    subject: str | None = option("A known instance or task.", "--for", metavar="ID")
    new: Files = option("New instances, or tasks by --side task.", metavar="[NAME=]FILE")
    pairs: bool = option("List the best of all pairs that are not observed.", default=False)
    number: int | None = option("List length; default 10, or 20 pairs.", "-n", "--number", min=1)
    side: str | None = option("instance or task, if the id or the file could be either.")
    setting: Setting = "A"
    zeros: bool | None = option("Treat zeros as not observed; default if all pairs are 0 or 1.")
    observed: bool = option(
        "List observed pairs too, predicted without their labels.", default=False
    )
    by: str = option(
        "Rank by score, or by the upper or lower bound of the interval.", default="score"
    )
    coverage: float = option("Coverage of the intervals of --by.", default=0.9)
    probability: bool = option("Add the probability of the larger of two labels.", default=False)
    prevalence: Prevalence = None
    per_instance: int | None = option(
        "Maximum number of pairs, or of lists, of an instance.", min=1
    )
    per_task: int | None = option("Maximum number of pairs, or of lists, of a task.", min=1)
    clip: Clip = None
    cv: Folds = None

    needs: ClassVar[Rules] = {"prevalence": ("probability",)}
    excludes: ClassVar[Rules] = {"pairs": ("side",), "new": ("setting", "zeros", "observed", "cv")}
    excludes |= {"observed": ("zeros",)}

    def check(self) -> None:
        """Raise if an option has no effect."""
        super().check()
        if self.by == "score":
            for written in written_options("coverage"):
                raise ValueError(
                    f"{written} goes with --by lower or --by upper: add it, or leave {written} out."
                )


class Screen(OfModel, TableOutput, module="predict"):
    """List the labels that look most wrong.

    These are the labels that held-out predictions contradict most: the first to check for mistakes.

    For example:

        dyadlearn screen model.dyad

        dyadlearn screen model.dyad --label 0 -n 100 -o suspicious.csv
    """

    number: Number = 20
    setting: Setting = "A"
    label: float | None = option("List only cells with this label, such as 0.")
    cv: Folds = None


class Update(LabelFile, OfModel, module="update"):
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
    instances: Path | None = option("New instances; with --tasks, the known instances.")
    tasks: Path | None = option("New tasks, labelled for all known instances.")
    output: Path | None = option("Model file to write instead of the old one.", "--output", "-o")
    known: str = option(
        "If instances are known already: error, or replace their labels.", default="error"
    )
    force: Force = False

    in_place: ClassVar[tuple[str, ...]] = ("source",)


class Inspect(OfModel, module="evaluate"):
    """Show the content of a model file.

    The output lists the model, its parameters and scores, its files of data, and how they were
    read.

    For example:

        dyadlearn inspect model.dyad
    """


class Report(OfModel, module="evaluate"):
    """Write an HTML report about a model.

    The report is one page that opens in any browser, without a network.

    For example:

        dyadlearn report model.dyad -o report.html --title "Nuclear receptors"
    """

    output: Path = option("The page to write.", "--output", "-o", default=Path("report.html"))
    title: str | None = option("The heading.")
    names: Paths = option("Names of ids: FASTA, or a table of id, name.", metavar="FILE")
    setting: Settings = None
    scoring: str | None = option(f"Score; by default that of the search. One of {SCORES}.")
    permutations: int = option(
        "Number of permutations of the labels for a null score.", default=0, min=0
    )
    nested: Nested = True
    force: Force = False

    endings: ClassVar[tuple[str, ...]] = PAGES
