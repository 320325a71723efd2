"""What all of the API's answers have in common."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Base of all answers: nothing unnamed, nothing changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True)
