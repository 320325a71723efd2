"""Puts the API together: the routes, the form of errors, the OpenAPI document.

``server.py`` makes the app and serves it. All routes are coroutines, so that all of them
run in the loop's thread, the only one in which the runtime may be touched.
"""

from fastapi import FastAPI
from fastapi.routing import APIRoute

from wharfinger import __version__
from wharfinger.service import answers
from wharfinger.service.dependencies import StateOfManager
from wharfinger.service.driver import Driver
from wharfinger.service.routes_cluster import router as cluster
from wharfinger.service.routes_workloads import router as workloads


def make_app(driver: Driver, manager: StateOfManager) -> FastAPI:
    """The API of one manager."""
    app = FastAPI(
        title="wharfinger",
        version=__version__,
        description="A cluster manager that is told performance targets, not reservations.",
        generate_unique_id_function=_operation_id,
        redirect_slashes=False,
    )
    app.state.driver = driver
    app.state.manager = manager
    answers.install(app)
    app.include_router(workloads)
    app.include_router(cluster)
    return app


def _operation_id(route: APIRoute) -> str:
    return route.name
