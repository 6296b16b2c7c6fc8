/** Alphabets of mathematics: each has its own code points, so that no font is needed to tell them apart. */

interface Alphabet {
  /** Code points of A, a and 0; 0 if there are none. */
  starts: [upper: number, lower: number, digit: number];
  /** Letters that Unicode has elsewhere. */
  others?: Record<string, string>;
}

const ALPHABETS: Record<string, Alphabet> = {
  bf: { starts: [0x1d400, 0x1d41a, 0x1d7ce] },
  bb: {
    starts: [0x1d538, 0x1d552, 0x1d7d8],
    others: { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ" },
  },
  cal: {
    starts: [0x1d49c, 0x1d4b6, 0],
    others: {
      B: "ℬ",
      E: "ℰ",
      F: "ℱ",
      H: "ℋ",
      I: "ℐ",
      L: "ℒ",
      M: "ℳ",
      R: "ℛ",
      e: "ℯ",
      g: "ℊ",
      o: "ℴ",
    },
  },
  frak: {
    starts: [0x1d504, 0x1d51e, 0],
    others: { C: "ℭ", H: "ℌ", I: "ℑ", R: "ℜ", Z: "ℨ" },
  },
  sf: { starts: [0x1d5a0, 0x1d5ba, 0x1d7e2] },
  tt: { starts: [0x1d670, 0x1d68a, 0x1d7f6] },
};

/** Alphabet of each command. */
export const ALPHABET_OF: Record<string, string> = {
  mathbf: "bf",
  boldsymbol: "bf",
  bm: "bf",
  mathbb: "bb",
  mathcal: "cal",
  mathscr: "cal",
  mathfrak: "frak",
  mathsf: "sf",
  mathtt: "tt",
};

/** Returns the characters in another alphabet; those that it does not have stay. */
export function inAlphabet(text: string, name: string): string {
  const { starts, others = {} } = ALPHABETS[name]!;
  const letter = (character: string): string => {
    const firsts = ["A", "a", "0"];
    const kind = [/[A-Z]/, /[a-z]/, /\d/].findIndex((kind) => kind.test(character));
    const start = starts[kind];
    if (!start) return character;
    return (
      others[character] ??
      String.fromCodePoint(start + character.charCodeAt(0) - firsts[kind]!.charCodeAt(0))
    );
  };
  return Array.from(text, letter).join("");
}
