"""Random pools: rules of all kinds and tickets that meet them now and then. Values are few, so that much is equal, near
and at the edge; times stand on a coarse grid in some pools, so that arrivals, steps and expiries fall on the same
instant, and on milliseconds in others."""

import random

MODES = ["duel", "ranked", "fun"]
KINDS = ["A", "B", "C", "D"]
USERS = ["ann", "bob", "cem", "dan", "eve", "fay"]
MAPS = ["dust", "mill", "port", "ruin", "zoo"]
TYPES = {"mode": "str", "kind": "str", "user": "str", "mmr": "num", "ping": "num", "maps": "set", "tags": "set"}


class Maker:
    def __init__(self, seed, is_distinct=False):
        """is_distinct: no two things happen at one instant, and every ticket has a ttl of the pool's."""
        self.random = random.Random(seed)
        self.is_distinct = is_distinct
        self.is_grid = not is_distinct and self.chance(0.5)
        self.missing = self.random.choice([0, 0, 0.1, 0.3])
        self.span = self.random.choice([5, 10, 20])  # of numbers
        self.has_halves = self.chance(0.2)
        self.is_two_sided = self.chance(0.3)  # many of one kind wait, and who is of the other has the choice

    def chance(self, part):
        return self.random.random() < part

    def pick(self, *values):
        return self.random.choice(values)

    def some(self, values, least, most):
        return self.random.sample(values, self.random.randint(least, min(most, len(values))))

    # --- Values -------------------------------------------------------------------------------------------------------

    def number(self):
        value = self.random.randint(-3, self.span)
        if self.has_halves and self.chance(0.5):
            value += self.pick(0.5, 0.25, 0.1)
        return -0.0 if value == 0 and self.chance(0.1) else value

    def value(self, name):
        if TYPES[name] == "num":
            return self.number()
        if name == "maps":
            return self.some(MAPS, 0, 4)
        if name == "tags":
            return self.some(USERS, 0, 3)
        kinds = ["A", "A", "A", "B"] if self.is_two_sided else KINDS
        return self.random.choice({"mode": MODES[: self.modes], "kind": kinds, "user": USERS}[name])

    # --- Rules --------------------------------------------------------------------------------------------------------

    def missing_any(self):
        return {"missing": "any"} if self.chance(0.25) else {}

    def expand(self, rule, name, values):
        """Up to four steps; values as a pool would widen, and now and then any."""
        if not self.chance(0.6):
            return rule
        times = sorted(self.random.sample(self.step_times, self.random.randint(1, min(4, len(self.step_times)))))
        bounds = [values() for _ in times]
        if self.chance(0.8):
            bounds.sort(reverse=name == "min")
        rule["expand"] = [{"after": f"{after}ms", name: bound} for after, bound in zip(times, bounds)]
        if self.chance(0.3):
            rule["expand"][-1] = {"after": rule["expand"][-1]["after"], "off": True}
        return rule

    def agree(self):
        return self.pick({}, {"agree": "both"}, {"agree": "either"})

    def rule(self):
        kind = self.pick("equal", "differ", "pairs", "near", "near", "share", "expr")
        if kind in ("equal", "differ"):
            return {"type": kind, "attr": self.pick("mode", "kind", "user", "mmr"), **self.missing_any()}
        if kind == "pairs":
            allow = [[self.pick(*KINDS), self.pick(*KINDS)] for _ in range(self.random.randint(1, 4))]
            return {"type": "pairs", "attr": "kind", "allow": allow, **self.missing_any()}
        if kind == "near":
            rule = {"type": "near", "attr": self.pick("mmr", "ping"), "max": self.random.randint(0, 6)}
            return self.expand(
                {**rule, **self.agree(), **self.missing_any()}, "max", lambda: self.random.randint(0, 15))
        if kind == "share":
            rule = {"type": "share", "attr": self.pick("maps", "tags"), "min": self.random.randint(1, 3)}
            return self.expand({**rule, **self.agree(), **self.missing_any()}, "min", lambda: self.random.randint(1, 3))
        return {"type": "expr", "expr": self.truth(self.random.randint(0, 2))}

    def truth(self, depth):
        if depth > 0:
            return self.pick(
                f"{self.truth(depth - 1)} and {self.truth(depth - 1)}",
                f"({self.truth(depth - 1)} or {self.truth(depth - 1)})",
                f"not ({self.truth(depth - 1)})",
            )
        who = self.pick("a", "b")
        return self.pick(
            f"{self.sum()} {self.pick('<', '<=', '==', '!=', '>=', '>')} {self.sum()}",
            f"a.{self.pick('mode', 'kind', 'user')} {self.pick('==', '!=')} b.{self.pick('mode', 'kind', 'user')}",
            f"{who}.user != '{self.pick(*USERS)}'",
            f'{who}.kind in {self.pick("a", "b")}.tags' if self.chance(0.3)
            else f"a.user in b.tags or b.user in a.tags",
        )

    def sum(self):
        return self.pick(
            "a.ping + b.ping",
            "a.mmr - b.mmr",
            "-a.mmr * 2",
            f"(a.ping - b.ping) / {self.pick('2', 'b.mmr', '(a.mmr - b.mmr)')}",
            str(self.random.randint(0, 30)),
            f"{self.random.randint(1, 9)}.5",
        )

    def pick_order(self):
        return self.pick(
            {},
            {"pick": "oldest"},
            {"pick": "first"},
            {"pick": "nearest:mmr"},
            {"pick": "nearest:ping"},
            {"pick":
             f"score:{self.pick('a.mmr - b.ping', '-(a.mmr - b.mmr) * (a.mmr - b.mmr)', 'b.ping', '10 / b.mmr')}"},
        )

    def shape(self):
        """Pairs most of the time, else one team or several."""
        if self.chance(0.65):
            return {"size": 2}
        if self.chance(0.4):
            return {"size": self.random.randint(3, 5)}
        sizes = self.pick([1, 1], [2, 2], [1, 2], [1, 1, 1], [2, 1, 1], [3, 1])
        return {"teams": [{"name": f"team{i}", "size": size} for i, size in enumerate(sizes)]}

    def rules(self, shape):
        rules = [self.rule() for _ in range(self.random.randint(0 if self.chance(0.1) else 1, 3))]
        if self.is_two_sided:
            rules = [{"type": "pairs", "attr": "kind", "allow": [["A", "B"]]}, *rules[: self.random.randint(0, 1)]]
        if "teams" in shape and self.chance(0.6):
            rules.append({"type": "team_near", "scope": "match", "attr": "mmr", "max": self.random.randint(0, 8),
                          **self.missing_any()})
        return rules

    # --- Tickets ------------------------------------------------------------------------------------------------------

    def need(self):
        def clause(name):
            if TYPES[name] == "num":
                return self.pick({"min": self.number()}, {"max": self.number()}, {"eq": self.number()},
                                 {"min": self.number(), "not": [self.number()]})
            if TYPES[name] == "set":
                return self.pick({"any": self.some(MAPS, 1, 3)}, {"all": self.some(MAPS, 1, 2)})
            return self.pick({"eq": self.value(name)}, {"in": [self.value(name), self.value(name)]},
                             {"not": [self.value(name)]})

        return {name: clause(name) for name in self.some([name for name in TYPES if name != "tags"], 1, 2)}

    def ticket(self, t, weight_max):
        ticket = {"t": t / 1000, "attrs": {name: self.value(name) for name in TYPES if not self.chance(self.missing)}}
        if self.chance(0.15):
            ticket["need"] = self.need()
        if weight_max > 1 and self.chance(0.4):
            ticket["n"] = self.random.randint(1, weight_max)
        if self.chance(self.priorities):
            ticket["prio"] = self.random.randint(0, 9)
        if self.chance(self.own_ttls):
            ticket["ttl"] = f"{self.random.randint(1, 40) * (500 if self.is_grid else 487)}ms"
        if self.chance(self.sets):
            ticket["xid"] = self.pick("x", "y", "z")
        return ticket

    def times(self, count):
        if self.is_distinct:  # steps and ttl stand on other remainders of 100
            return sorted(100 * self.random.randint(0, 300) + i for i in range(count))
        step = 500 if self.is_grid else 1
        return sorted(step * self.random.randint(0, 20_000 // step) for _ in range(count))

    def make(self):
        self.modes = self.random.randint(1, 3)
        if self.is_distinct:
            self.step_times = [1000 * i + 60 * i % 100 for i in (1, 2, 4, 8)]
        else:
            self.step_times = [500, 1000, 2000, 3000, 5000, 10_000] if self.is_grid else [333, 1000, 2500, 4001, 9000]
        self.priorities, self.own_ttls, self.sets = self.pick(0, 0.4), self.pick(0, 0, 0.5), self.pick(0, 0, 0.3)
        shape = self.shape()
        pool = {"attrs": TYPES, "rules": self.rules(shape), **shape, **self.pick_order()}
        if self.is_distinct or self.chance(0.6):
            pool["ttl"] = "29s" if self.is_distinct else f"{self.pick(2, 5, 10, 20)}s"
        is_pairs = shape == {"size": 2} and self.chance(0.9)
        weight_max = 1 if is_pairs else max((team["size"] for team in shape.get("teams", [shape])), default=1)
        count = self.random.randint(2, 16 if shape.get("size") == 2 else 10)
        return {
            "pool": pool,
            "budget": self.pick(1, 2, 5, 4096, 4096, 4096),
            "tickets": [self.ticket(t, weight_max) for t in self.times(count)],
        }


def make_pool(seed, **options):
    return Maker(seed, **options).make()
