"""Converter of SimpleImputer in double precision, for which onnxruntime has no operator."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto
from skl2onnx.common.data_types import DoubleTensorType
from skl2onnx.operator_converters.common import concatenate_variables
from skl2onnx.operator_converters.imputer_op import convert_sklearn_imputer


def convert_imputer(scope: Any, operator: Any, container: Any) -> None:
    """Replace NaN in numbers; strings and other missing-value markers are left to skl2onnx."""
    imputer = operator.raw_operator
    marked = isinstance(imputer.missing_values, float) and np.isnan(imputer.missing_values)
    if not marked or not isinstance(operator.inputs[0].type, DoubleTensorType):
        convert_sklearn_imputer(scope, operator, container)
        return
    X = concatenate_variables(scope, operator.inputs, container)
    missing, fill = scope.get_unique_variable_name("missing"), scope.get_unique_variable_name("fill")
    values = np.asarray(imputer.statistics_, dtype=float)
    container.add_initializer(fill, TensorProto.DOUBLE, [1, len(values)], values.tolist())
    container.add_node("IsNaN", [X], [missing], op_version=13)
    container.add_node("Where", [missing, fill, X], [operator.outputs[0].full_name], op_version=16)
