"""What all tests share: property tests are judged by their outcome, never by their time."""

from hypothesis import settings

settings.register_profile("nsysroof", deadline=None)
settings.load_profile("nsysroof")
