"""A model of Iceberg's commit protocol that is explored whole: which logs of commits can there be, and does each keep its promises?

``table`` has the state, ``operations`` what each kind does to it, ``explore`` the search, ``properties`` what must hold, ``scenario`` writes a
counterexample as a scenario for real Spark. Which commits are refused, the model asks :mod:`checkers.conflicts.validations`, as the
prediction of the conflict matrix does.
"""
