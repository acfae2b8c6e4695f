"""docs/python.md: its table is the one the script makes, and every name says why it is not there."""

import importlib.util

from support import *

import ferry.backend  # noqa: F401 - the table speaks of it


class Page(Case):
    def test_the_table_is_up_to_date(self):
        spec = importlib.util.spec_from_file_location("table", os.path.join(SOURCE, "scripts", "python_api_table.py"))
        script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
        with open(script.PAGE) as page:
            text = page.read()
        self.assertEqual(text, script.with_table(text),
                         "run: PYTHONPATH=build/python /usr/bin/python3 scripts/python_api_table.py --write")

    def test_everything_public_has_a_docstring(self):
        for name in ferry.__all__:
            thing = getattr(ferry, name)
            self.assertTrue(thing.__doc__, name)

    def test_the_stub_speaks_of_every_compiled_name(self):
        import ast
        with open(os.path.join(os.path.dirname(ferry.__file__), "_ferry.pyi")) as stub:
            tree = ast.parse(stub.read())
        said = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        for name in dir(ferry._ferry):
            thing = getattr(ferry._ferry, name)
            if name.startswith("_") or not callable(thing):
                continue
            self.assertIn(name, said)
            if isinstance(thing, type):
                members = {node.name if isinstance(node, ast.FunctionDef) else node.target.id for node in said[name].body
                           if isinstance(node, (ast.FunctionDef, ast.AnnAssign))}
                self.assertEqual({m for m in dir(thing) if not m.startswith("_")} - members, set(), name)


if __name__ == "__main__":
    unittest.main()
