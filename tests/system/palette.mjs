// Makes a PNG small: with a palette of 256 colours, where a screenshot has thousands that hardly differ.
import { crc32, deflateSync, inflateSync } from "node:zlib";

const FREQUENT = 96;
const SIGNATURE = Buffer.from("89504e470d0a1a0a", "hex");

function chunks(png) {
  const found = {};
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) {
    const name = png.toString("latin1", at + 4, at + 8);
    (found[name] ??= []).push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
  }
  return found;
}

const paeth = (a, b, c) => {
  const [left, up, corner] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)];
  return left <= up && left <= corner ? a : up <= corner ? b : c;
};

/** The bytes of the pixels; the filters of its lines undone. */
function pixels(lines, width, height, size) {
  const row = width * size;
  const out = Buffer.alloc(row * height);
  for (let y = 0; y < height; y++) {
    const filter = lines[y * (row + 1)];
    for (let x = 0; x < row; x++) {
      const at = y * row + x;
      const left = x >= size ? out[at - size] : 0;
      const up = y > 0 ? out[at - row] : 0;
      const corner = x >= size && y > 0 ? out[at - row - size] : 0;
      const guess = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
      out[at] = lines[y * (row + 1) + 1 + x] + guess;
    }
  }
  return out;
}

function chunk(name, data) {
  const body = Buffer.concat([Buffer.from(name, "latin1"), data]);
  const out = Buffer.alloc(body.length + 8);
  out.writeUInt32BE(data.length);
  body.copy(out, 4);
  out.writeUInt32BE(crc32(body), body.length + 4);
  return out;
}

const far = (a, b) => [16, 8, 0].reduce((sum, shift) => sum + (((a >> shift) & 255) - ((b >> shift) & 255)) ** 2, 0);

/** The most frequent colours, and those that are farthest from all of them; for each other one the nearest. */
function quantize(colours) {
  const counts = new Map();
  for (const colour of colours) counts.set(colour, (counts.get(colour) ?? 0) + 1);
  const all = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
  const palette = [];
  const nearest = new Map(all.map((colour) => [colour, { place: 0, distance: Infinity }]));
  const add = (chosen) => {
    palette.push(chosen);
    for (const [colour, best] of nearest) {
      const distance = far(colour, chosen);
      if (distance < best.distance) Object.assign(best, { place: palette.length - 1, distance });
    }
  };
  all.slice(0, FREQUENT).forEach(add);
  while (palette.length < Math.min(256, all.length))
    add(all.reduce((a, b) => (nearest.get(b).distance > nearest.get(a).distance ? b : a)));
  return { palette, places: nearest };
}

export function withPalette(png) {
  const { IHDR, IDAT } = chunks(png);
  const [width, height] = [IHDR[0].readUInt32BE(0), IHDR[0].readUInt32BE(4)];
  const size = { 2: 3, 6: 4 }[IHDR[0][9]];
  const bytes = pixels(inflateSync(Buffer.concat(IDAT)), width, height, size);
  const colours = new Uint32Array(width * height).map((_, i) => bytes.readUIntBE(i * size, 3));
  const { palette, places } = quantize(colours);
  const lines = Buffer.alloc((width + 1) * height);
  colours.forEach((colour, i) => (lines[i + Math.floor(i / width) + 1] = places.get(colour).place));
  const head = Buffer.from(IHDR[0]);
  head[8] = 8;
  head[9] = 3;
  const table = Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]));
  const data = deflateSync(lines, { level: 9 });
  const parts = [["IHDR", head], ["PLTE", table], ["IDAT", data], ["IEND", Buffer.alloc(0)]];
  return Buffer.concat([SIGNATURE, ...parts.map(([name, bytes]) => chunk(name, bytes))]);
}
