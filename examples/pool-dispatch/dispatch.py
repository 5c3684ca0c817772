"""A town of ten by ten kilometres. Riders and drivers come over some seconds; who waits looks further, up to four
kilometres."""

import math
import random
import statistics
import sys
import time

from pools import Picture, Pool

RIDERS, DRIVERS = 60, 70
ARRIVING_S = 3
STEPS = [(0, 1), (1, 2), (2, 4)]  # after so many seconds, so many kilometres to each side
COLORS = {1: "#1e8449", 2: "#b9770e", 4: "#c0392b"}
AWAY = "(a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y)"


def near(attribute):
    """Who waits longer decides how far: `either`."""
    (_, first), *later = STEPS
    return {"type": "near", "attr": attribute, "max": first, "agree": "either",
            "expand": [{"after": f"{after}s", "max": most} for after, most in later]}


pool = Pool(
    "dispatch",
    Attributes={"side": "str", "x": "num", "y": "num"},
    Rules=[{"type": "pairs", "attr": "side", "allow": [["rider", "driver"]]}, near("x"), near("y")],
    Pick=f"score: 0 - ({AWAY})",  # the nearest first
)

numbers = random.Random(3)
arrivals = [(f"rider-{at}", "rider") for at in range(RIDERS)] + [(f"driver-{at}", "driver") for at in range(DRIVERS)]
numbers.shuffle(arrivals)
places = {name: (round(numbers.uniform(0, 10), 2), round(numbers.uniform(0, 10), 2)) for name, _ in arrivals}
side_of = dict(arrivals)

print(f"{RIDERS} riders and {DRIVERS} drivers come within {ARRIVING_S} seconds.")
start = time.monotonic()
for at, (name, side) in enumerate(arrivals):
    time.sleep(max(0.0, start + at * ARRIVING_S / len(arrivals) - time.monotonic()))
    x, y = places[name]
    pool.offer({"TicketId": name, "Attributes": {"side": side, "x": x, "y": y}})
time.sleep(STEPS[-1][0] + 0.3)  # until the last of them looks as far as it ever will
pool.wait_until_quiet()
matches = pool.matches()

rides = []  # rider, driver, how far the longer waiter looked
for match in matches:
    by_side = {member["attributes"]["side"]: member for member in match["members"]}
    waited_s = max(member["waitedMs"] for member in match["members"]) / 1000
    most = max(most for after, most in STEPS if after <= waited_s)
    rides.append((by_side["rider"]["ticket"], by_side["driver"]["ticket"], most))


def reach(one, other):
    """How far a ticket must look to find the other."""
    return max(abs(a - b) for a, b in zip(places[one], places[other]))


for most in COLORS:
    lengths = [math.dist(places[rider], places[driver]) for rider, driver, looked in rides if looked == most]
    if lengths:
        print(f"  {len(lengths)} rides found within {most} km: {statistics.mean(lengths):.1f} km on average")
riding = {name for ride in rides for name in ride[:2]}
left = [name for name in places if name not in riding]
riders_left = [name for name in left if side_of[name] == "rider"]
could = [(one, other) for one in riders_left for other in left
         if side_of[other] == "driver" and reach(one, other) <= STEPS[-1][1]]
print(f"  {len(riders_left)} riders and {len(left) - len(riders_left)} drivers wait; "
      f"{len(could)} of them could ride together.")
is_good = (
    len(riding) == 2 * len(rides) and len(rides) > RIDERS // 2 and not could and pool.counts()["Waiting"] == len(left)
    and all(side_of[rider] == "rider" and side_of[driver] == "driver" and reach(rider, driver) <= most
            for rider, driver, most in rides)
)


def draw(path):
    size, left_edge, top = 46, 30, 60
    picture = Picture(720, 560)
    picture.text(left_edge, 36, f"{RIDERS} riders, {DRIVERS} drivers: who waits looks further", "title")
    picture.add("rect", x=left_edge, y=top, width=10 * size, height=10 * size, fill="#f7f7f4", stroke="#ccc")
    for at in range(1, 10):
        picture.line(left_edge + at * size, top, left_edge + at * size, top + 10 * size, "#e6e6e0", 1)
        picture.line(left_edge, top + at * size, left_edge + 10 * size, top + at * size, "#e6e6e0", 1)

    def at(name):
        return [round(edge + size * part, 1) for edge, part in zip((left_edge, top), places[name])]

    for rider, driver, most in rides:
        picture.line(*at(rider), *at(driver), COLORS[most], 2.5)
    for name in places:
        x, y = at(name)
        fill = "#222" if name in riding else "#fff"
        if side_of[name] == "rider":
            picture.circle(x, y, 4.5, fill, stroke="#222", stroke_width=1.5)
        else:
            picture.add("rect", x=round(x - 4.5, 1), y=round(y - 4.5, 1), width=9, height=9, fill=fill, stroke="#222",
                        stroke_width=1.5)
    x = left_edge + 10 * size + 24
    picture.circle(x, 84, 4.5, "#222")
    picture.text(x + 14, 89, "rider")
    picture.add("rect", x=x - 4.5, y=105.5, width=9, height=9, fill="#222")
    picture.text(x + 14, 115, "driver")
    picture.circle(x, 136, 4.5, "#fff", stroke="#222", stroke_width=1.5)
    picture.text(x + 14, 141, "waits")
    for row, (after, most) in enumerate(STEPS):
        y = 190 + 28 * row
        picture.line(x - 8, y - 5, x + 14, y - 5, COLORS[most], 3)
        when = "at once" if after == 0 else f"after {after} s"
        count = sum(looked == most for _, _, looked in rides)
        picture.text(x + 22, y, f"within {most} km, {when}: {count}", "small")
    picture.save(path)


if sys.argv[1:2] == ["--picture"]:
    draw(sys.argv[2])
print("Each rides at most once, and nobody waits who could ride." if is_good else "That is WRONG.")
sys.exit(0 if is_good else 1)
