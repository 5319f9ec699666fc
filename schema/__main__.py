"""Entry of `schemactl` and of `python -m schema`: makes sure that the right package answers."""

import sys

import schema


def main() -> int:
    """Run the command line and return its exit code."""
    if getattr(schema, "DISTRIBUTION", None) != "schemactl":
        # Two distributions that share the import name overwrite each other's files in one environment.
        print(
            f"schemactl cannot start: {schema.__file__} was overwritten by another project named `schema`. "
            "Give schemactl an environment of its own and install it again.",
            file=sys.stderr,
        )
        return 1
    from schema.cli import run

    return run()


if __name__ == "__main__":
    sys.exit(main())
