"""Which data sets there are, and what every file of them has to be.

Sizes and digests are of the uncompressed content and were computed from the files that the
paper's audits rebuild from. What could not be confirmed at the official source is said in
``unchecked`` of each entry; content is never taken on trust, whatever the address.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from proxyguard.datasets import recipes
from proxyguard.datasets.recipes import Recipe
from proxyguard.errors import RegistryError, TableError


class Origin(Enum):
    """Where the files of a data set come from."""

    DOWNLOAD = "download"
    USER = "a file from the user"
    SCIKIT_LEARN = "scikit-learn"


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file of a data set: its place, its size, its digest, and how it is had."""

    path: str  # below a data folder, uncompressed
    rows: int  # records, without headers and blank lines
    bytes: int | None  # nothing is known of the files that users bring
    sha256: str | None
    members: tuple[str, ...] = ()  # the way into the download, archive in archive
    recipe: Recipe = recipes.unchanged

    def __post_init__(self) -> None:
        parts = self.path.split("/")
        if "\\" in self.path or not all(parts) or {".", ".."} & set(parts):
            raise RegistryError(
                f"a file's path leads down from a data folder, with forward slashes; got "
                f"{self.path!r}"
            )

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A data set of the catalog: what it is, whose it is, and where it is had."""

    name: str
    title: str
    about: str
    rows: int  # records of all its tables
    outcome: str  # the column to predict in the loaded table
    positive: str  # the label of it that counts as positive, as a declaration writes it
    page: str
    licence: str
    citation: str
    files: tuple[File, ...] = ()
    origin: Origin = Origin.DOWNLOAD
    address: str | None = None
    unchecked: tuple[str, ...] = ()

    def file(self, name: str | None = None) -> File:
        """Return the file of this name, or the only one."""
        chosen = [file for file in self.files if name in (None, file.name)]
        if len(chosen) != 1:
            raise TableError(
                f"{self.name} has the files {[file.name for file in self.files]}; name one of "
                f"them, got {name!r}"
            )
        return chosen[0]


def entry(name: str) -> DataSet:
    """Return the data set of this name."""
    if name not in CATALOG:
        raise TableError(f"there is no data set {name!r}; there are {', '.join(CATALOG)}")
    return CATALOG[name]


_UCI = "https://archive.ics.uci.edu"
_CC_BY = "CC BY 4.0"
_ADDRESS = "the address was not opened; it is the one that other projects record"
_LICENCE = "the licence is as other projects quote the official page"
_CONTENT = "no other record says that the archive's member has this digest"
_BOTH = (_ADDRESS, _LICENCE)

_ENTRIES = (
    DataSet(
        name="magic",
        title="MAGIC Gamma Telescope",
        about="Simulated telescope images of gamma (g) and hadron (h) showers, 10 measurements.",
        rows=19020,
        outcome="class",
        positive="h",
        files=(
            File(
                path="magic/magic04.data",
                rows=19020,
                bytes=1477391,
                sha256="e9314b7ebd4b4b59a3b3d65f7316663963777b16a46786877651dbbaa640b36a",
                members=("magic04.data",),
            ),
        ),
        page=f"{_UCI}/dataset/159/magic+gamma+telescope",
        address=f"{_UCI}/static/public/159/magic+gamma+telescope.zip",
        licence=_CC_BY,
        citation="Bock, R. (2004). MAGIC Gamma Telescope. UCI. doi:10.24432/C52C8B",
        unchecked=_BOTH,
    ),
    DataSet(
        name="spambase",
        title="Spambase",
        about="E-mails by word and character frequencies; the paper's positive class is no spam.",
        rows=4601,
        outcome="spam",
        positive="0",
        files=(
            File(
                path="spambase/spambase.data",
                rows=4601,
                bytes=702942,
                sha256="b1ef93de71f97714d3d7d4f58fc9f718da7bbc8ac8a150eff2778616a8097b12",
                members=("spambase.data",),
            ),
        ),
        page=f"{_UCI}/dataset/94/spambase",
        address=f"{_UCI}/static/public/94/spambase.zip",
        licence=_CC_BY,
        citation="Hopkins, M. et al. (1999). Spambase. UCI. doi:10.24432/C53G6X",
        unchecked=_BOTH,
    ),
    DataSet(
        name="rice",
        title="Rice (Cammeo and Osmancik)",
        about="Grains of two varieties by seven measurements of their shape.",
        rows=3810,
        outcome="Class",
        positive="Cammeo",
        files=(
            File(
                path="rice/Rice_Cammeo_Osmancik.arff",
                rows=3810,
                bytes=427636,
                sha256="5475be95c1f908e6f4ac0e586ffa78a4291a691c5b444a10a9cda019ddc7ec86",
                members=("Rice_Cammeo_Osmancik.arff",),
            ),
        ),
        page=f"{_UCI}/dataset/545/rice+cammeo+and+osmancik",
        address=f"{_UCI}/static/public/545/rice+cammeo+and+osmancik.zip",
        licence=_CC_BY,
        citation="Cinar, I. and Koklu, M. (2019). Rice (Cammeo and Osmancik). UCI. "
        "doi:10.24432/C5MW4Z",
        unchecked=(*_BOTH, _CONTENT),
    ),
    DataSet(
        name="cdc",
        title="CDC Diabetes Health Indicators",
        about="Answers of a United States health survey of 2015, 21 indicators.",
        rows=253680,
        outcome="Diabetes_binary",
        positive="1",
        files=(
            File(
                path="cdc_diabetes/diabetes_binary_health_indicators_BRFSS2015.csv",
                rows=253680,
                bytes=22738154,
                sha256="19f367e3e3350768f0c144c5d73ee5b355f67a57eaaa86ca7bd8aec594d8b1d0",
                recipe=recipes.cdc_without_id,
            ),
        ),
        page=f"{_UCI}/dataset/891/cdc+diabetes+health+indicators",
        address=f"{_UCI}/static/public/891/data.csv",
        licence="UCI refers to the preparers' page, said to be CC0",
        citation="CDC Diabetes Health Indicators (2017). UCI. doi:10.24432/C53919",
        unchecked=(_ADDRESS, "the licence: records of it disagree"),
    ),
    DataSet(
        name="covertype",
        title="Covertype",
        about="Forest cells by cartographic variables; lodgepole pine (type 2) against the rest.",
        rows=581012,
        outcome="Cover_Type_2",
        positive="1",
        files=(
            File(
                path="covertype/covtype.csv",
                rows=581012,
                bytes=75170064,
                sha256="ea35ca6820fcbe0bdc6707e9ed31e11a9de84f07d88da73b511c737383c271a6",
                members=("covtype.data.gz",),
                recipe=recipes.covertype_with_header,
            ),
        ),
        page=f"{_UCI}/dataset/31/covertype",
        address=f"{_UCI}/static/public/31/covertype.zip",
        licence=_CC_BY,
        citation="Blackard, J. (1998). Covertype. UCI. doi:10.24432/C50K5N",
        unchecked=_BOTH,
    ),
    DataSet(
        name="shoppers",
        title="Online Shoppers Purchasing Intention",
        about="Sessions of a web shop; did the visit end with a purchase?",
        rows=12330,
        outcome="Revenue",
        positive="1",
        files=(
            File(
                path="online_shoppers/online_shoppers_intention.csv",
                rows=12330,
                bytes=1072063,
                sha256="b3055ee355f59134d851d32641183cb4a8b45def7124d2f50442a042f358e0d9",
                members=("online_shoppers_intention.csv",),
            ),
        ),
        page=f"{_UCI}/dataset/468/online+shoppers+purchasing+intention+dataset",
        address=f"{_UCI}/static/public/468/online+shoppers+purchasing+intention+dataset.zip",
        licence=_CC_BY,
        citation="Sakar, C. and Kastro, Y. (2018). Online Shoppers Purchasing Intention Dataset. "
        "UCI. doi:10.24432/C5F88Q",
        unchecked=_BOTH,
    ),
    DataSet(
        name="mushroom",
        title="Secondary Mushroom",
        about="Simulated mushrooms of 173 species, edible (e) or poisonous (p).",
        rows=61069,
        outcome="class",
        positive="p",
        files=(
            File(
                path="secondary_mushroom/secondary_data.csv",
                rows=61069,
                bytes=2896328,
                sha256="c0eb333df5747171cfc4356c966434b4e9ba1f099c4a0aa2c27f545853e6d203",
                members=("MushroomDataset.zip", "MushroomDataset/secondary_data.csv"),
            ),
        ),
        page=f"{_UCI}/dataset/848/secondary+mushroom+dataset",
        address=f"{_UCI}/static/public/848/secondary+mushroom+dataset.zip",
        licence=_CC_BY,
        citation="Wagner, D., Heider, D. and Hattab, G. (2021). Secondary Mushroom. UCI. "
        "doi:10.24432/C5FP5Q",
        unchecked=(*_BOTH, _CONTENT),
    ),
    DataSet(
        name="taiwan",
        title="Default of Credit Card Clients (Taiwan)",
        about="Card holders by six months of bills and payments; do they default in the next?",
        rows=30000,
        outcome="default.payment.next.month",
        positive="1",
        files=(
            File(
                path="taiwan_default/UCI_Credit_Card.csv",
                rows=30000,
                bytes=2862995,
                sha256="a0f0ab49d6326671d6cd83be5c88dcf18007025fe9a53ecd699119c871176ca1",
                recipe=recipes.taiwan_with_names,
            ),
        ),
        page=f"{_UCI}/dataset/350/default+of+credit+card+clients",
        address=f"{_UCI}/static/public/350/data.csv",
        licence=_CC_BY,
        citation="Yeh, I. (2009). Default of Credit Card Clients. UCI. doi:10.24432/C55S3H",
        unchecked=_BOTH,
    ),
    DataSet(
        name="german",
        title="German Credit (Statlog)",
        about="Loan applicants with UCI's own label: 1 good, 2 bad credit risk.",
        rows=1000,
        outcome="class",
        positive="2",
        files=(
            File(
                path="german_credit/german.data",
                rows=1000,
                bytes=79793,
                sha256="b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
                members=("german.data",),
            ),
        ),
        page=f"{_UCI}/dataset/144/statlog+german+credit+data",
        address=f"{_UCI}/static/public/144/statlog+german+credit+data.zip",
        licence=_CC_BY,
        citation="Hofmann, H. (1994). Statlog (German Credit Data). UCI. doi:10.24432/C5NC77",
        unchecked=_BOTH,
    ),
    DataSet(
        name="heart",
        title="Heart Disease, four clinics",
        about="Patients of Cleveland, Hungary, Switzerland and Long Beach; any disease or none.",
        rows=920,
        outcome="disease",
        positive="1",
        files=(
            File(
                path="heart_disease/processed.cleveland.data",
                rows=303,
                bytes=18461,
                sha256="a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
                members=("processed.cleveland.data",),
            ),
            File(
                path="heart_disease/processed.hungarian.data",
                rows=294,
                bytes=10263,
                sha256="d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",
                members=("processed.hungarian.data",),
            ),
            File(
                path="heart_disease/processed.switzerland.data",
                rows=123,
                bytes=4109,
                sha256="834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314",
                members=("processed.switzerland.data",),
            ),
            File(
                path="heart_disease/processed.va.data",
                rows=200,
                bytes=6737,
                sha256="e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f",
                members=("processed.va.data",),
            ),
        ),
        page=f"{_UCI}/dataset/45/heart+disease",
        address=f"{_UCI}/static/public/45/heart+disease.zip",
        licence=_CC_BY,
        citation="Janosi, A. et al. (1989). Heart Disease. UCI. doi:10.24432/C52P4X",
        unchecked=_BOTH,
    ),
    DataSet(
        name="statlog_heart",
        title="Heart (Statlog)",
        about="Patients by 13 measurements; 1 without and 2 with heart disease.",
        rows=270,
        outcome="class",
        positive="2",
        files=(
            File(
                path="statlog_heart/heart.dat",
                rows=270,
                bytes=16461,
                sha256="f5f3b4204c285bafadd85cb735f38b47689f2be7047feb172dcbeab648110bf9",
                members=("heart.dat",),
            ),
        ),
        page=f"{_UCI}/dataset/145/statlog+heart",
        address=f"{_UCI}/static/public/145/statlog+heart.zip",
        licence=_CC_BY,
        citation="Statlog (Heart). UCI. doi:10.24432/C57303",
        unchecked=_BOTH,
    ),
    DataSet(
        name="bank",
        title="Bank Marketing",
        about="Calls of a Portuguese bank in the order of their dates; was a deposit taken?",
        rows=45211,
        outcome="y",
        positive="yes",
        files=(
            File(
                path="bank_marketing/bank-full.csv",
                rows=45211,
                bytes=4610348,
                sha256="d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",
                members=("bank.zip", "bank-full.csv"),
            ),
        ),
        page=f"{_UCI}/dataset/222/bank+marketing",
        address=f"{_UCI}/static/public/222/bank+marketing.zip",
        licence=_CC_BY,
        citation="Moro, S., Rita, P. and Cortez, P. (2014). Bank Marketing. UCI. "
        "doi:10.24432/C5K306",
        unchecked=_BOTH,
    ),
    DataSet(
        name="adult",
        title="Adult",
        about="Persons of the United States census of 1994; is the income above 50,000 dollars?",
        rows=48842,
        outcome="income",
        positive=">50K",
        files=(
            File(
                path="adult/adult.data",
                rows=32561,
                bytes=3974305,
                sha256="5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
                members=("adult.data",),
            ),
            File(
                path="adult/adult.test",
                rows=16281,
                bytes=2003153,
                sha256="a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
                members=("adult.test",),
            ),
        ),
        page=f"{_UCI}/dataset/2/adult",
        address=f"{_UCI}/static/public/2/adult.zip",
        licence=_CC_BY,
        citation="Becker, B. and Kohavi, R. (1996). Adult. UCI. doi:10.24432/C5XW20",
        unchecked=_BOTH,
    ),
    DataSet(
        name="australian",
        title="Australian Credit Approval (Statlog)",
        about="Card applications with nameless columns; approved (1) or not (0).",
        rows=690,
        outcome="class",
        positive="1",
        files=(
            File(
                path="australian_credit/australian.dat",
                rows=690,
                bytes=28735,
                sha256="3abe5af151afa50b999a9ba21cbc884e80d80a4050b716cf88b34a2e6ecb731c",
                members=("australian.dat",),
            ),
        ),
        page=f"{_UCI}/dataset/143/statlog+australian+credit+approval",
        address=f"{_UCI}/static/public/143/statlog+australian+credit+approval.zip",
        licence=_CC_BY,
        citation="Quinlan, R. Statlog (Australian Credit Approval). UCI. doi:10.24432/C59012",
        unchecked=_BOTH,
    ),
    DataSet(
        name="mammographic",
        title="Mammographic Mass",
        about="Masses by age and four findings of the image; benign (0) or malignant (1).",
        rows=961,
        outcome="Severity",
        positive="1",
        files=(
            File(
                path="mammographic_mass/mammographic_masses.data",
                rows=961,
                bytes=13450,
                sha256="072051c896fb14f8f25c64eed30ba1333290af41e6c9ffad4e1ca573daa865a8",
                members=("mammographic_masses.data",),
            ),
        ),
        page=f"{_UCI}/dataset/161/mammographic+mass",
        address=f"{_UCI}/static/public/161/mammographic+mass.zip",
        licence=_CC_BY,
        citation="Elter, M. (2007). Mammographic Mass. UCI. doi:10.24432/C53K6Z",
        unchecked=_BOTH,
    ),
    DataSet(
        name="newsgroups",
        title="20 Newsgroups by date, hockey and space",
        about="Posts of rec.sport.hockey (0) and sci.space (1), split by date.",
        rows=1986,
        outcome="group",
        positive="1",
        files=(
            File(
                path="newsgroups/20news-bydate-hockey-space.tar",
                rows=1986,
                bytes=5304320,
                sha256="1df99902a335215f360e763a837cfc5f657e22c4faa960e61d3d124c97da8b22",
                recipe=recipes.newsgroups_archive,
            ),
            File(
                path="newsgroups/order-train.txt",
                rows=1193,
                bytes=23288,
                sha256="3d78312bf74e5a75cfddf609c3897f6c56c278929136f6895625ef704d322724",
                recipe=recipes.newsgroups_order("train"),
            ),
            File(
                path="newsgroups/order-test.txt",
                rows=793,
                bytes=15481,
                sha256="48807fb195b5eac9c7cc533033e618ed4cdf2e1bc96ea51ee552e688d4a6c6e0",
                recipe=recipes.newsgroups_order("test"),
            ),
        ),
        page="http://qwone.com/~jason/20Newsgroups/",
        address="https://ndownloader.figshare.com/files/5975967",
        licence="none stated; the posts belong to their authors",
        citation="Lang, K. (1995). NewsWeeder: learning to filter netnews. ICML. The collection "
        "by date is J. Rennie's; the address is scikit-learn's.",
        unchecked=(_ADDRESS,),
    ),
    DataSet(
        name="wdbc",
        title="Breast Cancer Wisconsin (Diagnostic)",
        about="Tumours by 30 measurements of cell nuclei; malignant (1) or benign (0).",
        rows=569,
        outcome="malignant",
        positive="1",
        origin=Origin.SCIKIT_LEARN,
        page=f"{_UCI}/dataset/17/breast+cancer+wisconsin+diagnostic",
        licence=_CC_BY,
        citation="Wolberg, W. et al. (1993). Breast Cancer Wisconsin (Diagnostic). UCI. "
        "doi:10.24432/C5DW2B",
        unchecked=(_LICENCE,),
    ),
    DataSet(
        name="compas",
        title="COMPAS two-year recidivism",
        about="Defendants of Broward County; arrested again within two years?",
        rows=7214,
        outcome="two_year_recid",
        positive="1",
        files=(
            File(path="compas/compas-scores-two-years.csv", rows=7214, bytes=None, sha256=None),
        ),
        origin=Origin.USER,
        page="https://github.com/propublica/compas-analysis",
        licence="no open licence; records of named persons",
        citation="Larson, J. et al. (2016). How we analyzed the COMPAS recidivism algorithm. "
        "ProPublica.",
        unchecked=("the number of rows is as others state it",),
    ),
    DataSet(
        name="give_me_some_credit",
        title="Give Me Some Credit",
        about="Borrowers by ten features; seriously late within two years?",
        rows=150000,
        outcome="SeriousDlqin2yrs",
        positive="1",
        files=(
            File(path="give_me_some_credit/cs-training.csv", rows=150000, bytes=None, sha256=None),
        ),
        origin=Origin.USER,
        page="https://www.kaggle.com/c/GiveMeSomeCredit",
        licence="no open licence; competition rules",
        citation="Credit Fusion and Cukierski, W. (2011). Give Me Some Credit. Kaggle.",
        unchecked=("the number of rows is as others state it",),
    ),
)

CATALOG: dict[str, DataSet] = {one.name: one for one in _ENTRIES}
