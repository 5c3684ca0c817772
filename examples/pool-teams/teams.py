"""Games of two against two. Ann and Ben are a party, one ticket of weight 2; Eve lives elsewhere; Dan is found and says
no."""

import sys
import time

from pools import Picture, Pool

GAP = 60  # how far the teams' means may be apart
PLAYERS = [
    # ticket, weight, region, mmr
    ("ann+ben", 2, "eu", 1510),
    ("cid", 1, "eu", 1480),
    ("eve", 1, "us", 1500),
    ("dan", 1, "eu", 1600),
    ("flo", 1, "eu", 1535),
]
COLORS = {"red": "#c0392b", "blue": "#2471a3"}

pool = Pool(
    "two-v-two",
    Attributes={"region": "str", "mmr": "num"},
    Teams=[{"name": "red", "size": 2}, {"name": "blue", "size": 2}],
    Rules=[
        {"type": "equal", "attr": "region"},
        {"type": "near", "attr": "mmr", "max": 200, "expand": [{"after": "20s", "max": 400}]},
        {"type": "team_near", "scope": "match", "attr": "mmr", "max": GAP},
    ],
    ConfirmSeconds=60,  # a match is made when each of its tickets has said yes
)


offered = []


def offer(name, weight, region, mmr):
    offered.append(name)
    pool.offer({"TicketId": name, "Weight": weight, "Attributes": {"region": region, "mmr": mmr}})


def ticket(name):
    return pool.call("GetTicket", TicketId=name)


def held():
    """The match that waits for its confirmations, and its tickets."""
    found = {name: ticket(name) for name in offered}
    names = [name for name, state in found.items() if state["Status"] == "held"]
    return (found[names[0]]["MatchId"], names) if names else (None, [])


def wait_for_match():
    deadline = time.monotonic() + 30
    while not (found := held())[0]:
        if time.monotonic() > deadline:
            raise TimeoutError("nobody was matched")
        time.sleep(0.02)
    return found


def confirm(match, name, accept=True):
    print(f"  {name} says {'yes' if accept else 'no'}: "
          f"{pool.call('ConfirmMatch', MatchId=match, TicketId=name, Accept=accept)['Status']}")


def mean(team):
    return sum(weight * mmr for _, weight, _, mmr in team) / sum(weight for _, weight, _, _ in team)


print("They arrive: " + ", ".join(name for name, *_ in PLAYERS[:4]))
for player in PLAYERS[:4]:
    offer(*player)
first, first_names = wait_for_match()
print(f"A game for {', '.join(first_names)}, if all of them want it. Eve, in another region, waits.")
confirm(first, "ann+ben")
confirm(first, "dan", accept=False)
print(f"Dan is out ({ticket('dan')['Status']}); ann+ben and cid wait again, "
      f"as long as they have ({ticket('ann+ben')['Status']}, {ticket('cid')['Status']}).")

print("\nFlo arrives.")
offer(*PLAYERS[4])
second, second_names = wait_for_match()
for name in second_names:
    confirm(second, name)
games = pool.matches(wait=5)

by_name = {player[0]: player for player in PLAYERS}
teams = {}
for member in games[0]["members"]:
    teams.setdefault(member["team"], []).append(by_name[member["ticket"]])
print("\nThe game: "
      + " against ".join(f"{team} ({', '.join(name for name, *_ in players)}; {mean(players):g} on average)"
                         for team, players in sorted(teams.items())))

is_good = (
    len(games) == 1 and games[0]["match"] == second != first
    and sorted(first_names) == ["ann+ben", "cid", "dan"] and sorted(second_names) == ["ann+ben", "cid", "flo"]
    and sorted(sum(weight for _, weight, _, _ in players) for players in teams.values()) == [2, 2]
    and len({region for players in teams.values() for _, _, region, _ in players}) == 1
    and abs(mean(teams["red"]) - mean(teams["blue"])) <= GAP
    and [ticket(name)["Status"] for name in ("eve", "dan")] == ["waiting", "cancelled"]
)


def draw(path):
    """Both attempts above each other: who was in which, and what became of it."""
    picture = Picture(720, 300)
    picture.text(24, 34, "Two against two: a party of two, and a no", "title")
    low, high = 1460, 1620
    at = {name: 200 + (mmr - low) / (high - low) * 460 for name, _, _, mmr in PLAYERS}
    team_of = {name: team for team, players in teams.items() for name, *_ in players}
    for y, names, title, note in (
            (100, first_names, "first match", "dan says no"), (210, second_names, "second match", "all say yes")):
        picture.text(24, y, title)
        picture.text(24, y + 18, note, "small")
        picture.line(190, y, 690, y, "#ddd", 1)
        for name in names:
            weight = by_name[name][1]
            refused = name == "dan"
            color = "#fff" if refused else COLORS[team_of[name]]
            for seat in range(weight):
                more = {"stroke": "#888", "stroke_width": 2, "stroke_dasharray": "4 3"} if refused else {}
                picture.circle(at[name] + 22 * (seat - (weight - 1) / 2), y, 11, color, **more)
            lift = -22 if name in ("cid", "flo", "dan") else 30
            picture.text(at[name], y + lift, f"{name} {by_name[name][3]}", "small", "middle")
    picture.text(24, 276, "; ".join(f"{team}: {mean(players):g} on average" for team, players in sorted(teams.items()))
                 + f"; at most {GAP} apart. Eve, in another region, waits.", "small")
    picture.save(path)


if sys.argv[1:2] == ["--picture"]:
    draw(sys.argv[2])
print("Two teams of two, the party together, and nobody in two games." if is_good else "That is WRONG.")
sys.exit(0 if is_good else 1)
