"""Eight letters, of which three pairs fit and two fit nobody; then a crowd of them, from four programs at once."""

import collections
import random
import sys
import threading

from pools import Picture, Pool

FITS = [("A", "B"), ("C", "E"), ("D", "F")]
ORDER = "GACHDBFE"  # in which the eight arrive
CROWD = 10_000
COLORS = ["#c0392b", "#2471a3", "#1e8449"]

RULES = {
    "Attributes": {"kind": "str"},
    "Rules": [{"type": "pairs", "attr": "kind", "allow": FITS}],
}


def kinds_of(match):
    return tuple(sorted(member["attributes"]["kind"] for member in match["members"]))


def eight():
    """One of each. Three matches, and G and H wait. Returns each letter's arrival and the matches, for the picture."""
    pool = Pool("letters", **RULES)
    found = []
    for letter in ORDER:
        pool.offer({"TicketId": letter, "Attributes": {"kind": letter}})
        pool.wait_until_quiet()
        matches = [kinds_of(match) for match in pool.matches()]
        found += [(letter, pair) for pair in matches]
        print(f"  {letter} arrives" + "".join(f": {' and '.join(pair)} are matched" for pair in matches))
    waiting = sorted(letter for letter in ORDER if pool.call("GetTicket", TicketId=letter)["Status"] == "waiting")
    print(f"  {' and '.join(waiting)} wait.")
    return found, waiting


def crowd():
    """Very many, offered by four programs at once. Of each pair as many matches as its rarer letter has tickets, and
    nobody twice."""
    pool = Pool("crowd", **RULES)
    numbers = random.Random(7)
    tickets = [{"TicketId": f"{number}", "Attributes": {"kind": numbers.choice("ABCDEFGH")}} for number in range(CROWD)]

    def offer(part):
        for at in range(0, len(part), 100):
            pool.offer(*part[at : at + 100])

    threads = [threading.Thread(target=offer, args=(tickets[which::4],)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pool.wait_until_quiet()
    matches = pool.matches()
    there = collections.Counter(ticket["Attributes"]["kind"] for ticket in tickets)
    expected = {pair: min(there[letter] for letter in pair) for pair in FITS}
    made = collections.Counter(map(kinds_of, matches))
    members = collections.Counter(member["ticket"] for match in matches for member in match["members"])
    twice = sum(count > 1 for count in members.values())
    for pair, count in expected.items():
        print(f"  {there[pair[0]]} {pair[0]} and {there[pair[1]]} {pair[1]}: {made[pair]} matches")
    print(f"  {twice} tickets were matched twice; {pool.counts()['Waiting']} wait, none of whom fits another.")
    return made == expected and twice == 0 and pool.counts()["Waiting"] == CROWD - 2 * len(matches)


def draw(path, found, waiting):
    """Arrivals from left to right; an arc joins two when the later of them comes."""
    picture = Picture(720, 250)
    picture.text(24, 34, "A fits B, C fits E, D fits F", "title")
    place = {letter: 70 + 80 * at for at, letter in enumerate(ORDER)}
    for (_, pair), color in zip(found, COLORS):
        first, last = sorted(place[letter] for letter in pair)
        height = (last - first) * 0.42
        picture.add("path", d=f"M{first},168 C{first},{168 - height} {last},{168 - height} {last},168", fill="none",
                    stroke=color, stroke_width=3)
        for letter in pair:
            picture.circle(place[letter], 185, 19, color)
            picture.add("text", letter, x=place[letter], y=191, text_anchor="middle",
                        style="fill:#fff;font-weight:bold;font-size:16px")
    for letter in waiting:
        picture.circle(place[letter], 185, 18, "#fff", stroke="#888", stroke_width=2, stroke_dasharray="4 3")
        picture.text(place[letter], 190, letter, anchor="middle")
        picture.text(place[letter], 232, "waits", "small", "middle")
    picture.line(40, 214, 690, 214, "#bbb", 1)
    picture.text(690, 207, "arrival", "small", "end")
    picture.save(path)


print("One of each, A to H:")
found, waiting = eight()
print(f"\n{CROWD:,} letters from four programs at once:")
is_good = crowd() and sorted(pair for _, pair in found) == FITS and waiting == ["G", "H"]
if sys.argv[1:2] == ["--picture"]:
    draw(sys.argv[2], found, waiting)
print("Each at most once, and nobody waits who fits another." if is_good else "That is WRONG.")
sys.exit(0 if is_good else 1)
