from .fit import fit_batches as fit_batches, sum_batches as sum_batches
from .predict import predict_batches as predict_batches
from .predictor import Predictor as Predictor
