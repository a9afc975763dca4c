"""Models as files."""

from typing import Annotated

from fastapi import FastAPI, Path, Response

from ..store.store import Store
from .access import Reader
from .bodies import SQLITE_MAX

Id = Annotated[int, Path(ge=1, le=SQLITE_MAX)]


class BinaryFile(Response):
    """A file as it is."""

    media_type = "application/octet-stream"


def _file(content: bytes, generation: int) -> Response:
    return BinaryFile(content, headers={"ETag": f'"{generation}"'})


def add_forest(app: FastAPI, store: Store) -> None:
    """The route that hosts ask."""

    @app.get("/v1/models/{generation}/forest", tags=["models"], response_class=BinaryFile)
    def get_forest(generation: Id, caller: Reader) -> Response:
        """The model as hosts read it."""
        return _file(store.model_files(generation).forest, generation)


def add_onnx(app: FastAPI, store: Store) -> None:
    """The other form."""

    @app.get("/v1/models/{generation}/onnx", tags=["models"], response_class=BinaryFile)
    def get_onnx(generation: Id, caller: Reader) -> Response:
        """The model as ONNX."""
        return _file(store.model_files(generation).onnx, generation)
