"""How the pages are built: executed, every warning an error, every public name documented."""

import hashlib
import importlib.util
import inspect
import os
import shutil
import sys
from importlib import metadata
from pathlib import Path

import jax
import sphinx.builders
from jupyter_cache import get_cache
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import SphinxError

sys.path.insert(0, str(Path(__file__).parent))
import rendered

project = "genclf"
author = "The genclf authors"
copyright = "The genclf authors"
release = version = metadata.version("genclf")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "notebooks"]
html_theme = "furo"
html_title = "genclf"
html_copy_source = False
html_css_files = ["pages.css"]
pygments_dark_style = "github-dark"  # that of the theme underlines names of modules

# Formulas are set without a network. The package brings the files of MathJax; as an extension it
# would not let pages be read in parallel.
MATHJAX = importlib.util.find_spec("sphinx-mathjax-offline").submodule_search_locations[0]
mathjax_path = "tex-svg-full.js"  # one file, which needs no fonts beside it
html_static_path = ["static", f"{MATHJAX}/static/mathjax/{mathjax_path}"]
# Letters of formulas as large as those of the text, whatever font a reader has.
mathjax3_config = {"svg": {"scale": 0.95, "matchFontHeight": False}}

# A page runs again where its text, the library or JAX has changed since it last ran.
ROOT = Path(__file__).parent.parent
LIBRARY = hashlib.sha256(f"{sys.version} {jax.__version__}".encode())
for source in sorted(path for path in (ROOT / "genclf").rglob("*.*") if path.suffix != ".pyc"):
    LIBRARY.update(source.read_bytes())
nb_execution_mode = "cache"
EXECUTED = ROOT / "docs/_build/executed" / LIBRARY.hexdigest()[:16]
nb_execution_cache_path = str(EXECUTED)
for other in EXECUTED.parent.glob("*"):
    if other != EXECUTED:
        shutil.rmtree(other)
# Two processes that read pages would both make the tables.
get_cache(EXECUTED).list_cache_records()
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 900
nb_merge_streams = True

# Nearly all the time of most pages is compilation. So it is quick rather than good, as in tests;
# but not where a page iterates for long or compares times. Others that print one say so.
COMPILED_WELL = ("eeg", "genes", "latent", "searchlight", "three-roads")
LONG = ("latent", "three-roads", "mixtures", "bayes", "generative-or-discriminative")
# Sphinx gives a process a dozen pages at a time, and one process is left alone with the last ones.
sphinx.builders.make_chunks = lambda docnames, nproc: [[docname] for docname in docnames]
FLAGS = ["--xla_cpu_parallel_codegen_split_count=1"]
if jax.__version_info__ < (0, 11):  # later ones do not know the flag, and stop
    FLAGS.append("--xla_cpu_use_fusion_emitters=false")
os.environ["XLA_FLAGS"] = " ".join(FLAGS)

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

# In a docstring `x` is code, and types are for people: neither is a link that must resolve.
default_role = "literal"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True

# The modules whose `__all__` is public; the API page must name all that is in them.
PUBLIC_MODULES = [
    "genclf",
    "genclf.text",
    "genclf.discretize",
    "genclf.datasets",
    "genclf.families",
    "genclf.plot",
    "genclf.stream",
]


def own_docstring(obj: object) -> str:
    """The docstring written for `obj`: neither inherited nor made up by `dataclass`."""
    if not inspect.isclass(obj):
        return inspect.getdoc(obj) or ""
    doc = vars(obj).get("__doc__") or ""
    return "" if doc.startswith(f"{obj.__name__}(") else doc


def check_api_page(app: Sphinx, env: BuildEnvironment) -> None:
    """Fail the build unless each public name is on the API page and has a docstring."""
    on_page = {name for name, entry in env.domains["py"].objects.items() if entry.docname == "api"}
    faults = []
    for module_name in PUBLIC_MODULES:
        module = importlib.import_module(module_name)
        for name in getattr(module, "__all__", []):
            if name.startswith("__") or inspect.ismodule(getattr(module, name)):
                continue
            full = f"{module_name}.{name}"
            if full not in on_page and f"genclf.{name}" not in on_page:
                faults.append(f"{full} is not in docs/api.md")
            if not own_docstring(getattr(module, name)).strip():
                faults.append(f"{full} has no docstring")
    if faults:
        raise SphinxError("the API page is not complete:\n  " + "\n  ".join(faults))


def begin_with_the_longest(app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
    """Put the pages that run for a minute or more last; Sphinx begins with these.

    Then two processes end together.
    """
    docnames.sort(key=lambda docname: docname in LONG)


def set_compilation(app: Sphinx, docname: str, source: list[str]) -> None:
    """Set what the kernel of a page inherits."""
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = str(int(docname not in COMPILED_WELL))


def write_notebooks(app: Sphinx, exception: Exception | None) -> None:
    """Keep the executed pages as notebooks beside the sources."""
    executed = app.config.nb_execution_mode == "cache"
    if exception is None and executed and app.builder.name == "html":
        match = get_cache(EXECUTED).merge_match_into_notebook
        rendered.write(Path(app.outdir).parent / "jupyter_execute", lambda nb: match(nb)[1])


def setup(app: Sphinx) -> None:
    """Register the check, and what is kept."""
    app.connect("env-before-read-docs", begin_with_the_longest)
    app.connect("source-read", set_compilation)
    app.connect("env-check-consistency", check_api_page)
    app.connect("build-finished", write_notebooks)
