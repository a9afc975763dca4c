"""The documentation page, without the Internet: Swagger UI by files of the package fastapi-offline, served here."""

from fastapi import FastAPI, Response
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.staticfiles import StaticFiles

from .service import Service

FILES = "/docs/files"


def add(app: FastAPI, _: Service) -> None:
    """`/docs`, and what it loads."""
    app.mount(FILES, StaticFiles(packages=[("fastapi_offline", "static")]), name="documentation")

    @app.get("/docs", include_in_schema=False)
    async def get_docs() -> Response:
        return get_swagger_ui_html(
            openapi_url=str(app.openapi_url),
            title="qclimb: REST",
            swagger_js_url=f"{FILES}/swagger-ui-bundle.js",
            swagger_css_url=f"{FILES}/swagger-ui.css",
            swagger_favicon_url=f"{FILES}/favicon.png",
            swagger_ui_parameters={"tryItOutEnabled": False, "validatorUrl": None},
        )
