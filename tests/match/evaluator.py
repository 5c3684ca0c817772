"""A slow, simple evaluator of the rule language of pools (docs/reference/pool-rules.md): what a matcher must
find, worked out by looking at everything.

A pool is the object that CreatePool takes, in the short form of files: {"attrs", "rules", "size" or "teams", "pick",
"ttl"}; a ticket is {"t": seconds, "attrs", "need", "n", "prio", "ttl", "xid"}, and its number is its place in the list,
from 1. Times inside are whole milliseconds.

A ticket's level is state, as it is in the server: it rises when the ticket takes its step, and steps are taken one
after the other. Two tickets whose steps fall on the same instant therefore see each other's old or new level by the
order of their numbers."""

import itertools
import math
import re

UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
NEVER = math.inf
PRIORITY_URGENT = 10  # in the last tenth of the ttl


def duration_ms(text):
    digits, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", text).groups()
    return int(digits) * UNITS[unit]


class Ticket:
    def __init__(self, number, given, pool):
        self.number = number
        self.offered_at = round(given.get("t", 0) * 1000)
        self.attributes = {
            name: frozenset(value) if isinstance(value, list) else value
            for name, value in given.get("attrs", {}).items()
        }
        self.need = given.get("need", {})
        self.weight = given.get("n", 1)
        self.own_priority = given.get("prio", 0)
        self.exclusive_set = given.get("xid")
        ttl = given.get("ttl")
        ttl = pool.ttl if ttl is None else duration_ms(ttl) if isinstance(ttl, str) else round(ttl * 1000)
        self.expires_at = self.offered_at + ttl if ttl else NEVER
        self.urgent_at = self.expires_at - ttl // 10 if ttl else NEVER
        self.level = 0
        self.is_urgent = False

    @property
    def priority(self):
        return PRIORITY_URGENT if self.is_urgent else self.own_priority

    def __repr__(self):
        return f"#{self.number}"


# --- Expressions ------------------------------------------------------------------------------------------------------

TOKEN = re.compile(
    r"\s*(?:(\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+)|(\"[^\"]*\"|'[^']*')|([A-Za-z_]\w*)|(<=|>=|==|!=|[<>+\-*/().]))")


class Undefined(Exception):
    """A missing attribute, a value of another type, a division by zero, a number that is none."""


def number(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise Undefined
    return value


def truth(value):
    if not isinstance(value, bool):
        raise Undefined
    return value


class Expression:
    """Recursive descent, into functions of (a, b)."""

    def __init__(self, text):
        self.tokens = []
        at, text = 0, text.rstrip()
        while at < len(text):
            match = TOKEN.match(text, at)
            assert match, f"{text!r} at {at}"
            self.tokens.append(next((kind, value) for kind, value in enumerate(match.groups()) if value is not None))
            at = match.end()
        self.value = self.either()
        assert not self.tokens, f"{text!r}: what is {self.tokens[0]}?"

    def holds(self, a, b):
        try:
            return truth(self.value(a, b))
        except Undefined:
            return False

    def number(self, a, b):
        """None where there is none."""
        try:
            return number(self.value(a, b))
        except Undefined:
            return None

    def take(self, *words):
        if self.tokens and self.tokens[0][1] in words and self.tokens[0][0] != 1:
            return self.tokens.pop(0)[1]
        return None

    def either(self):
        left = self.both()
        while self.take("or"):
            left = (lambda x, y: lambda a, b: truth(x(a, b)) or truth(y(a, b)))(left, self.both())
        return left

    def both(self):
        left = self.negation()
        while self.take("and"):
            left = (lambda x, y: lambda a, b: truth(x(a, b)) and truth(y(a, b)))(left, self.negation())
        return left

    def negation(self):
        if self.take("not"):
            inner = self.comparison()
            return lambda a, b: not truth(inner(a, b))
        return self.comparison()

    def comparison(self):
        left = self.sum()
        sign = self.take("<", "<=", "==", "!=", ">=", ">", "in")
        if not sign:
            return left
        right = self.sum()
        return lambda a, b: compare(sign, left(a, b), right(a, b))

    def sum(self):
        left = self.product()
        while sign := self.take("+", "-"):
            left = arithmetic(sign, left, self.product())
        return left

    def product(self):
        left = self.unary()
        while sign := self.take("*", "/"):
            left = arithmetic(sign, left, self.unary())
        return left

    def unary(self):
        if self.take("-"):
            inner = self.unary()
            return lambda a, b: -number(inner(a, b))
        if self.take("("):
            inner = self.either()
            assert self.take(")")
            return inner
        kind, word = self.tokens.pop(0)
        if kind == 0:
            return lambda a, b: float(word)
        if kind == 1:
            return lambda a, b: word[1:-1]
        assert kind == 2 and word in ("a", "b"), word
        assert self.take(".")
        name = self.tokens.pop(0)[1]
        return attribute(word == "a", name)


def attribute(is_first, name):
    def read(a, b):
        value = (a if is_first else b).attributes.get(name)
        if value is None:
            raise Undefined
        return value

    return read


def arithmetic(sign, left, right):
    def work(a, b):
        x, y = number(left(a, b)), number(right(a, b))
        if sign == "/" and y == 0:
            raise Undefined
        return number(x + y if sign == "+" else x - y if sign == "-" else x * y if sign == "*" else x / y)

    return work


def compare(sign, x, y):
    if sign == "in":
        if not isinstance(x, str) or not isinstance(y, frozenset):
            raise Undefined
        return x in y
    if isinstance(x, str) != isinstance(y, str) or isinstance(x, (frozenset, bool)) or isinstance(y, (frozenset, bool)):
        raise Undefined
    if sign in ("==", "!="):
        return (x == y) == (sign == "==")
    x, y = number(x), number(y)
    return x < y if sign == "<" else x <= y if sign == "<=" else x > y if sign == ">" else x >= y


# --- Rules ------------------------------------------------------------------------------------------------------------


def meets(need, other):
    """Every clause of a need must hold for the other ticket; one without the attribute fails."""
    for name, clauses in need.items():
        value = other.attributes.get(name)
        if value is None:
            return False
        for clause, wanted in clauses.items():
            if not {
                "eq": lambda: value == wanted,
                "in": lambda: value in wanted,
                "not": lambda: value not in wanted,
                "min": lambda: value >= wanted,
                "max": lambda: value <= wanted,
                "any": lambda: bool(value & frozenset(wanted)),
                "all": lambda: value >= frozenset(wanted),
            }[clause]():
                return False
    return True


class Pool:
    def __init__(self, given):
        self.given = given
        self.rules = given.get("rules", [])
        self.ttl = duration_ms(given["ttl"]) if "ttl" in given else 0
        self.teams = [team["size"] for team in given["teams"]] if "teams" in given else [given.get("size", 2)]
        self.weight = sum(self.teams)
        self.steps = sorted({duration_ms(step["after"]) for rule in self.rules for step in rule.get("expand", [])})
        self.pick = given.get("pick", "oldest")
        self.score = Expression(self.pick[6:]) if self.pick.startswith("score:") else None
        self.checks = [self.make_check(rule) for rule in self.rules if rule["type"] != "team_near"]
        self.team_rules = [rule for rule in self.rules if rule["type"] == "team_near"]

    def bounds(self, rule, name):
        """The rule's value at each level; None: it is off."""
        values = [rule[name]]
        for at in self.steps:
            value = values[-1]
            for step in rule.get("expand", []):
                if duration_ms(step["after"]) == at:
                    value = None if step.get("off") else step[name]
            values.append(value)
        return values

    def make_check(self, rule):
        kind, is_any = rule["type"], rule.get("missing") == "any"
        if kind == "expr":
            expression = Expression(rule["expr"])
            return lambda a, b: expression.holds(a, b) and expression.holds(b, a)
        if kind == "pairs":
            allowed = {frozenset(pair) for pair in rule["allow"]}
            return compare_values(rule["attr"], is_any, lambda x, y: frozenset((x, y)) in allowed)
        if kind in ("equal", "differ"):
            return compare_values(rule["attr"], is_any, lambda x, y: (x == y) == (kind == "equal"))
        if kind == "near":
            return self.make_bounded(rule, "max", max, min, lambda x, y, most: abs(x - y) <= most)
        assert kind == "share", kind
        return self.make_bounded(rule, "min", min, max, lambda x, y, least: len(x & y) >= least)

    def make_bounded(self, rule, name, loose, strict, holds):
        values, is_either, is_any = self.bounds(rule, name), rule.get("agree") == "either", rule.get("missing") == "any"

        def check(a, b):
            x, y = values[a.level], values[b.level]
            if x is None or y is None:
                if is_either or x is y:
                    return True  # it is off, for one that decides or for both
                bound = x if y is None else y
            else:
                bound = (loose if is_either else strict)(x, y)
            return compare_values(rule["attr"], is_any, lambda v, w: holds(v, w, bound))(a, b)

        return check

    def fits(self, a, b):
        if is_sibling(a, b):
            return False
        return all(check(a, b) for check in self.checks) and meets(a.need, b) and meets(b.need, a)

    def order(self, seed, other):
        """Candidates go by this, the smallest first."""
        distance = 0
        if self.pick.startswith("nearest:"):
            x, y = seed.attributes.get(self.pick[8:]), other.attributes.get(self.pick[8:])
            distance = math.inf if x is None or y is None else abs(x - y)
        if self.score:
            score = self.score.number(seed, other)
            distance = math.inf if score is None else -score
        return -other.priority, distance, other.number

    def sides(self, members):
        """The divisions into teams with the right weights for which the team rules hold, each a tuple with a team for
        every member."""
        for side in itertools.product(range(len(self.teams)), repeat=len(members)):
            weights = [0] * len(self.teams)
            for member, team in zip(members, side):
                weights[team] += member.weight
            if weights == self.teams and all(self.team_rule_holds(rule, members, side) for rule in self.team_rules):
                yield side

    def team_rule_holds(self, rule, members, side):
        values = [member.attributes.get(rule["attr"]) for member in members]
        if None in values:
            return rule.get("missing") == "any"
        means = []
        for team, size in enumerate(self.teams):
            inside = [(value, member.weight) for value, member, where in zip(values, members, side) if where == team]
            means.append(sum(value * weight for value, weight in inside) / size)
        return max(means) - min(means) <= rule["max"] + 1e-9

    def is_group(self, members):
        """Do they fit, as a whole match?"""
        return (
            sum(member.weight for member in members) == self.weight
            and all(self.fits(a, b) for a, b in itertools.combinations(members, 2))
            and next(self.sides(members), None) is not None
        )

    def find(self, seed, waiting):
        """The group of the seed: the smallest, of those the first by the order of candidates. None: there is none."""
        candidates = [other for other in waiting if other is not seed and self.fits(seed, other)]
        candidates.sort(key=lambda other: self.order(seed, other))
        return self.grow([seed], candidates) if self.is_worth(seed, candidates) else None

    def is_worth(self, seed, candidates):
        return seed.weight + sum(other.weight for other in candidates) >= self.weight

    def grow(self, members, candidates):
        for size in range(len(candidates) + 1):
            found = self.grow_to(members, candidates, size)
            if found:
                return found
        return None

    def grow_to(self, members, candidates, more):
        """`more` further members, of these candidates."""
        weight = sum(member.weight for member in members)
        if more == 0:
            return members if weight == self.weight and next(self.sides(members), None) is not None else None
        if weight + more > self.weight:
            return None
        for place, other in enumerate(candidates):
            if weight + other.weight > self.weight or not all(self.fits(other, member) for member in members[1:]):
                continue
            found = self.grow_to([*members, other], candidates[place + 1 :], more - 1)
            if found:
                return found
        return None


def compare_values(name, is_any, holds):
    def check(a, b):
        x, y = a.attributes.get(name), b.attributes.get(name)
        return is_any if x is None or y is None else holds(x, y)

    return check


# --- What happens -----------------------------------------------------------------------------------------------------

ARRIVAL, STEP, EXPIRY = range(3)


def is_sibling(a, b):
    return a.exclusive_set is not None and a.exclusive_set == b.exclusive_set


def schedule(pool, tickets):
    """Everything that may happen, in its order: at one instant arrivals, then steps, then expiries, by number."""
    events = []
    for ticket in tickets:
        events.append((ticket.offered_at, ARRIVAL, ticket.number))
        steps = {ticket.offered_at + after for after in pool.steps} | {ticket.urgent_at}
        events += [(at, STEP, ticket.number) for at in steps if at <= ticket.expires_at and at < NEVER]
        if ticket.expires_at < NEVER:
            events.append((ticket.expires_at, EXPIRY, ticket.number))
    return sorted(events)


def replay(pool, tickets, decide, tell):
    """Lets the tickets come, step and expire. decide(at, seed, waiting) says which group the seed is matched in now, or
    None; tell(what, at, value) hears of ["match", ms, members], ["expired", ms, ticket] and ["cancelled", ms, ticket].
    Returns who waits at the end."""
    by_number = {ticket.number: ticket for ticket in tickets}
    waiting = {}  # number -> ticket, in the order of the numbers
    ended = set()
    for at, kind, which in schedule(pool, tickets):
        ticket = by_number[which]
        if which in ended:
            continue
        if kind == EXPIRY:
            ended.add(which)
            tell("expired", at, waiting.pop(which))
            continue
        if kind == ARRIVAL:
            waiting[which] = ticket
        ticket.level = sum(at - ticket.offered_at >= after for after in pool.steps) if kind == STEP else 0
        ticket.is_urgent = kind == STEP and at >= ticket.urgent_at
        group = decide(at, ticket, list(waiting.values()))
        if group:
            tell("match", at, group)
            for member in group:
                ended.add(member.number)
                del waiting[member.number]
            for member in group:
                for other in [other for other in waiting.values() if is_sibling(member, other)]:
                    ended.add(other.number)
                    del waiting[other.number]
                    tell("cancelled", at, other)
    return list(waiting.values())
