// Small line charts. Each says its numbers in words as well, for whoever does not see it.
import { h, svg } from "./dom.js";
import { count, span } from "./words.js";

const HEIGHT = 64;
const STEP = 2;

/** The points as a path; a null leaves a gap. */
function path(points, most) {
  let text = "";
  let isDown = false;
  points.forEach((value, i) => {
    if (value === null) isDown = false;
    else {
      const y = (HEIGHT - 2 - (value / most) * (HEIGHT - 6)).toFixed(1);
      text += `${isDown ? "L" : "M"}${i * STEP} ${y}`;
      isDown = true;
    }
  });
  return text;
}

/** lines: [{name, points, kind}], the oldest first. */
export function chart(title, lines, period, format = count) {
  const all = lines.flatMap((line) => line.points).filter((value) => value !== null);
  const most = Math.max(1, ...all);
  const width = Math.max(...lines.map((line) => line.points.length)) * STEP;
  if (all.length === 0)
    return h("figure.chart", null, h("figcaption", null, title), h("p.soft", null, "Nothing is known yet."));
  const last = (points) => points.findLast((value) => value !== null) ?? 0;
  const words = lines.map(
    (line) => `${line.name}: ${format(last(line.points))} now, ${format(Math.max(0, ...line.points))} at most`,
  );
  return h(
    "figure.chart",
    null,
    h(
      "figcaption",
      null,
      title,
      " ",
      lines.map(({ kind }, i) => [
        h("span.series", { class: kind, "aria-hidden": true }),
        h("span.soft", null, `${words[i]}; `),
      ]),
      h("span.soft", null, span((width / STEP) * period)),
    ),
    svg(
      "svg",
      {
        viewBox: `0 0 ${width} ${HEIGHT}`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `${title}. ${words.join(". ")}.`,
      },
      lines.map((line) =>
        svg("path", {
          class: `series ${line.kind ?? ""}`,
          d: path(line.points, most),
          "vector-effect": "non-scaling-stroke",
        }),
      ),
    ),
  );
}
