import assert from "node:assert/strict";
import { test } from "node:test";
import { toHtml } from "../src/markdown/parse.ts";
import type { MathNode } from "../src/math/node.ts";
import { parse } from "../src/math/parse.ts";
import { NotUnderstood } from "../src/math/tokens.ts";

/** Writes nodes as `tag(content)`, without attributes. */
const shown = ({ tag, content }: MathNode): string =>
  `${tag}(${typeof content === "string" ? content : content.map(shown).join(" ")})`;

const inline = (source: string) => shown(parse(source, false)).slice("math(".length, -1);
const display = (source: string) => shown(parse(source, true)).slice("math(".length, -1);

test("formulas become MathML", () => {
  const cases: [source: string, expected: string][] = [
    ["x", "mi(x)"],
    ["12.5x", "mrow(mn(12.5) mi(x))"],
    ["a_1^2", "msubsup(mi(a) mn(1) mn(2))"],
    ["a^2_1", "msubsup(mi(a) mn(1) mn(2))"],
    ["f''(x)", "mrow(msup(mi(f) mrow(mo(′) mo(′))) mo(() mi(x) mo()))"],
    ["\\frac{1}{2}", "mfrac(mn(1) mn(2))"],
    ["\\frac12", "mfrac(mn(1) mn(2))"],
    ["2^12", "mrow(msup(mn(2) mn(1)) mn(2))"],
    ["\\frac ab", "mfrac(mi(a) mi(b))"],
    ["\\sqrt[3]{x+1}", "mroot(mrow(mi(x) mo(+) mn(1)) mn(3))"],
    ["\\sqrt2", "msqrt(mn(2))"],
    ["\\alpha\\le\\Omega", "mrow(mi(α) mo(≤) mi(Ω))"],
    ["\\sum_{i=1}^n i", "mrow(msubsup(mo(∑) mrow(mi(i) mo(=) mn(1)) mi(n)) mi(i))"],
    ["\\int\\limits_0^1", "munderover(mo(∫) mn(0) mn(1))"],
    ["\\text{if } x", "mrow(mtext(if\u00A0) mi(x))"],
    ["\\mathbb{R}^n", "msup(mi(ℝ) mi(n))"],
    ["\\mathbf{x1}", "mrow(mi(𝐱) mn(𝟏))"],
    ["\\mathcal{L}", "mi(ℒ)"],
    ["\\hat{y}", "mover(mi(y) mo(^))"],
    ["\\binom{n}{k}", "mrow(mo(() mfrac(mi(n) mi(k)) mo()))"],
    ["\\sin x", "mrow(mi(sin) mspace() mi(x))"],
    ["\\sin^2(x)", "mrow(msup(mi(sin) mn(2)) mo(() mi(x) mo()))"],
    ["\\not=", "mo(≠)"],
    ["\\boxed{42}", "mrow(mn(42))"],
    ["\\{1\\}", "mrow(mo({) mn(1) mo(}))"],
    ["a % comment\nb", "mrow(mi(a) mi(b))"],
    ["\\operatorname{rank} A", "mrow(mi(rank) mi(A))"],
    [
      "\\begin{pmatrix}a&b\\\\c&d\\end{pmatrix}",
      "mrow(mo(() mtable(mtr(mtd(mi(a)) mtd(mi(b))) mtr(mtd(mi(c)) mtd(mi(d)))) mo()))",
    ],
    ["\\begin{cases}1&x\\\\\\end{cases}", "mrow(mo({) mtable(mtr(mtd(mn(1)) mtd(mi(x)))))"],
  ];
  for (const [source, expected] of cases) assert.equal(inline(source), expected, source);
});

test("limits of a displayed sum are above and below it", () => {
  assert.equal(display("\\sum_i^n"), "munderover(mo(∑) mi(i) mi(n))");
  assert.equal(display("\\lim_{x\\to0}"), "munder(mi(lim) mrow(mi(x) mo(→) mn(0)))");
  assert.equal(display("\\int_0^1"), "msubsup(mo(∫) mn(0) mn(1))");
});

test("brackets pair and grow", () => {
  const node = parse("\\left[x\\middle|y\\right)", false);
  assert.equal(shown(node), "math(mrow(mo([) mi(x) mo(|) mi(y) mo())))");
  assert.ok(JSON.stringify(node).includes('"stretchy":"true"'));
});

test("what is not understood is refused", () => {
  const wrong = [
    "{",
    "}",
    "x^",
    "x^1^2",
    "\\frac{1}",
    "\\left(x",
    "\\left x\\right)",
    "a&b",
    "\\unknown",
    "\\href{x}{y}",
    "\\begin{matrix}a",
    "\\begin{matrix}a\\end{pmatrix}",
    "\\begin{tikz}\\end{tikz}",
    "\\text{$x$}",
    "\\",
    "#1",
    "\\constructor",
    "\\__proto__",
    "\\begin{constructor}\\end{constructor}",
    "{".repeat(100) + "}".repeat(100),
    "x".repeat(6000),
  ];
  for (const source of wrong)
    assert.throws(() => parse(source, false), NotUnderstood, source.slice(0, 40));
});

const MATH = /class="math"/;

test("delimiters are found, money and code are not", () => {
  for (const yes of [
    "$x$",
    "a $x+y$ b",
    "\\(x\\)",
    "a \\(x\\) b",
    "$$x$$",
    "\\[x\\]",
    "- $$x$$",
    "$$\nx\n- y\n\n= z\n$$",
    "text\n$$\nx\n$$\nmore",
    "**a $x$**",
    "$a*b*c$",
    "\\[\nx\n\\]",
  ]) {
    assert.match(toHtml(yes), MATH, yes);
  }
  for (const no of [
    "$5 and $10",
    "$5-$10",
    "costs $5",
    "`$x$`",
    "```\n$$x$$\n```",
    "\\$x\\$",
    "$ x $",
    "$a\nb$",
    "$$",
    "$$$$",
    "\\(x",
  ]) {
    assert.doesNotMatch(toHtml(no), MATH, no);
  }
});

test("a block of several lines stays one", () => {
  assert.equal(toHtml("$$\na\n\n- b\n$$\n"), '<p class="math">$$\na\n\n- b\n$$</p>\n');
  assert.equal(toHtml("$a<b$"), '<p><span class="math">$a&lt;b$</span></p>\n');
});
