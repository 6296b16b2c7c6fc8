/**
 * Parses the subset of TeX that models use in formulas into MathML. Anything else throws `NotUnderstood`, and the
 * page shows the source.
 */
import { ALPHABET_OF, inAlphabet } from "./letters.ts";
import { type MathNode, fence, node, row, space } from "./node.ts";
import * as symbols from "./symbols.ts";
import { NotUnderstood, Tokens } from "./tokens.ts";

/** Longer and deeper formulas are shown as source. */
const MAX_LENGTH = 5000;
const MAX_DEPTH = 40;

/** Where limits of an operator are placed: below and above, or at its side. */
type Place = "below" | "side";

interface Atom {
  node: MathNode;
  place: Place;
  /** True for names such as sin, which are set apart from their argument. */
  isFunction?: boolean;
}

export function parse(source: string, isDisplay: boolean): MathNode {
  if (source.length > MAX_LENGTH) throw new NotUnderstood("too long");
  const parser = new Parser(new Tokens(source), isDisplay);
  const content = parser.row("");
  return node("math", [row(content)], { display: isDisplay ? "block" : "inline" });
}

class Parser {
  private depth = 0;

  constructor(
    private readonly tokens: Tokens,
    private readonly isDisplay: boolean,
  ) {}

  /** Parses until one of these tokens, which is left, or until the end. */
  row(...ends: string[]): MathNode[] {
    if ((this.depth += 1) > MAX_DEPTH) throw new NotUnderstood("too deep");
    const nodes: MathNode[] = [];
    while (!ends.includes(this.tokens.peek())) {
      if (!this.tokens.peek()) throw new NotUnderstood(`expected ${ends.join(" or ")}`);
      nodes.push(...this.scripted());
    }
    this.depth -= 1;
    return nodes;
  }

  /** Parses an atom with what is below and above it. */
  private scripted(): MathNode[] {
    const atom = this.atom();
    if (this.tokens.take("\\limits")) atom.place = "below";
    else if (this.tokens.take("\\nolimits")) atom.place = "side";
    let below: MathNode | undefined;
    const above: MathNode[] = [];
    for (;;) {
      if (this.tokens.take("'")) above.push(node("mo", "′"));
      else if (!below && this.tokens.take("_")) below = this.argument();
      else if (!above.some(isNoPrime) && this.tokens.take("^")) above.push(this.argument());
      else break;
    }
    const scripted = withScripts(atom, below, above.length ? row(above) : undefined);
    const isApart =
      atom.isFunction &&
      /^(?:[\p{L}\p{N}]|\\(?!left|right|end|[^a-zA-Z]))/u.test(this.tokens.peek());
    return isApart ? [scripted, space(symbols.SPACES[","]!)] : [scripted];
  }

  /** Parses a group, or a single symbol or digit. */
  private argument(): MathNode {
    return /^\d$/.test(this.tokens.peek()) ? node("mn", this.tokens.next()) : this.atom().node;
  }

  private atom(): Atom {
    const digits = this.tokens.number();
    if (digits) return side(node("mn", digits));
    const token = this.tokens.next();
    if (token === "{") {
      const nodes = this.row("}");
      this.tokens.expect("}");
      return side(row(nodes));
    }
    if (token.length > 1 && token.startsWith("\\")) return this.command(token.slice(1));
    if (!token || "}&^_#$".includes(token)) throw new NotUnderstood(`unexpected ${token || "end"}`);
    if (token === "~") return side(space(symbols.SPACES["~"]!));
    if (/[\p{L}\p{M}]/u.test(token)) return side(node("mi", token));
    return side(operator(token === "-" ? "−" : token === "*" ? "∗" : token));
  }

  private command(name: string): Atom {
    const { IDENTIFIERS, OPERATORS, LARGE, INTEGRALS, FUNCTIONS, LIMITS, SPACES } = symbols;
    const identifier = IDENTIFIERS.get(name);
    if (identifier) return side(node("mi", identifier));
    const sign = OPERATORS.get(name);
    if (sign) return side(operator(sign));
    const large = LARGE.get(name);
    if (large) return { node: node("mo", large), place: this.isDisplay ? "below" : "side" };
    const integral = INTEGRALS.get(name);
    if (integral) return side(node("mo", integral));
    if (FUNCTIONS.has(name)) return { ...side(named(name)), isFunction: true };
    if (LIMITS.has(name))
      return { node: named(name), place: this.isDisplay ? "below" : "side", isFunction: true };
    if (Object.hasOwn(SPACES, name)) return side(space(SPACES[name]!));
    if (Object.hasOwn(ALPHABET_OF, name)) return side(this.inAlphabet(ALPHABET_OF[name]!));
    return this.construct(name);
  }

  /** Parses the commands that take arguments. */
  private construct(name: string): Atom {
    const accent = symbols.ACCENTS.get(name);
    if (accent) return this.accent("mover", accent, name);
    const accentBelow = symbols.ACCENTS_BELOW.get(name);
    if (accentBelow) return this.accent("munder", accentBelow, name);
    switch (name) {
      case "frac":
      case "dfrac":
      case "tfrac":
      case "cfrac":
        return side(node("mfrac", [this.argument(), this.argument()]));
      case "binom":
      case "dbinom":
      case "tbinom":
        return side(this.binomial());
      case "sqrt":
        return side(this.root());
      case "text":
      case "textrm":
      case "textit":
      case "textbf":
      case "textsf":
      case "texttt":
      case "mbox":
      case "hbox":
        return side(node("mtext", plain(this.tokens.raw())));
      case "mathrm":
      case "operatorname":
      case "mathit":
        return side(named(plain(this.tokens.raw()).replace(/\s+/g, "")));
      case "tag":
        return side(row([space(2), node("mtext", `(${plain(this.tokens.raw())})`)]));
      case "boxed":
      case "fbox":
        return side(node("mrow", [this.argument()], { class: "boxed" }));
      case "overset":
      case "stackrel":
        return side(this.stacked("mover"));
      case "underset":
        return side(this.stacked("munder"));
      case "left":
        return side(this.fenced());
      case "begin":
        return side(this.environment(this.tokens.raw()));
      case "not":
        return side(this.negated());
      case "bmod":
        return side(named("mod"));
      case "pmod":
        return side(
          row([
            space(1),
            node("mo", "("),
            named("mod"),
            space(0.3),
            this.argument(),
            node("mo", ")"),
          ]),
        );
      case "displaystyle":
      case "textstyle":
      case "scriptstyle":
      case "nonumber":
      case "notag":
        return side(row([]));
      default:
        if (/^[bB]igg?[lrm]?$/.test(name)) return side(row(fence(this.delimiter())));
        throw new NotUnderstood(`\\${name}`);
    }
  }

  private accent(tag: string, mark: string, name: string): Atom {
    const isWide = /^(?:wide|over|under)/.test(name);
    const isBrace = name.endsWith("brace");
    const content = [this.argument(), node("mo", mark, { stretchy: String(isWide) })];
    return { node: node(tag, content, { accent: "true" }), place: isBrace ? "below" : "side" };
  }

  private inAlphabet(name: string): MathNode {
    return restyled(this.argument(), (text) => inAlphabet(text, name));
  }

  private binomial(): MathNode {
    const parts = node("mfrac", [this.argument(), this.argument()], { linethickness: "0" });
    return row([...fence("("), parts, ...fence(")")]);
  }

  private root(): MathNode {
    if (!this.tokens.take("[")) return node("msqrt", [this.argument()]);
    const degree = row(this.row("]"));
    this.tokens.expect("]");
    return node("mroot", [this.argument(), degree]);
  }

  private stacked(tag: string): MathNode {
    const mark = this.argument();
    return node(tag, [this.argument(), mark]);
  }

  private fenced(): MathNode {
    const nodes = fence(this.delimiter());
    for (;;) {
      nodes.push(...this.row("\\right", "\\middle"));
      const isEnd = this.tokens.next() === "\\right";
      nodes.push(...fence(this.delimiter()));
      if (isEnd) return node("mrow", nodes);
    }
  }

  /** Parses a bracket after `\left` or `\big`. A point stands for none. */
  private delimiter(): string {
    const token = this.tokens.next();
    if (token === ".") return "";
    if (token === "<") return "⟨";
    if (token === ">") return "⟩";
    const sign = token.length > 1 ? symbols.OPERATORS.get(token.slice(1)) : token;
    if (!sign || !/^[()[\]{}|/‖⌊⌋⌈⌉⟨⟩∖↑↓↕]$/u.test(sign))
      throw new NotUnderstood(`delimiter ${token}`);
    return sign;
  }

  private negated(): MathNode {
    const negated = this.argument();
    if (typeof negated.content !== "string" || negated.tag !== "mo")
      throw new NotUnderstood("\\not");
    return node("mo", `${negated.content}\u0338`.normalize("NFC"));
  }

  private environment(name: string): MathNode {
    const isLines = symbols.LINES.has(name);
    if (!isLines && !Object.hasOwn(symbols.MATRICES, name)) throw new NotUnderstood(name);
    // Columns of an array are all centred.
    if (name === "array" || name === "alignat") this.tokens.raw();
    const rows = this.rows();
    this.tokens.expect("\\end");
    if (this.tokens.raw() !== name) throw new NotUnderstood(`the end of ${name}`);
    const kind = isLines ? "lines" : name === "cases" ? "cases" : "matrix";
    const table = node("mtable", rows, { class: kind });
    const [left, right] = symbols.MATRICES[name] ?? ["", ""];
    return left || right ? node("mrow", [...fence(left), table, ...fence(right)]) : table;
  }

  private rows(): MathNode[] {
    const rows: MathNode[] = [];
    let cells: MathNode[] = [];
    for (;;) {
      while (this.tokens.take("\\hline"));
      cells.push(node("mtd", this.row("&", "\\\\", "\\end")));
      if (this.tokens.take("&")) continue;
      const isLast = this.tokens.peek() === "\\end";
      // A line break before the end begins no row.
      const isEmpty = isLast && cells.length === 1 && !cells[0]!.content.length;
      if (!isEmpty) rows.push(node("mtr", cells));
      if (isLast) return rows;
      this.tokens.next();
      cells = [];
    }
  }
}

const side = (node: MathNode): Atom => ({ node, place: "side" });

/** Brackets and bars in the text do not grow; `\left` makes those that do. */
const operator = (sign: string): MathNode =>
  /^[()[\]{}|/‖⌊⌋⌈⌉⟨⟩]$/u.test(sign) ? node("mo", sign, { stretchy: "false" }) : node("mo", sign);

/** A name of several letters is upright; one letter would be italic. */
const named = (name: string): MathNode => node("mi", name, { mathvariant: "normal" });

const isNoPrime = ({ content }: MathNode): boolean => content !== "′";

function withScripts({ node: base, place }: Atom, below?: MathNode, above?: MathNode): MathNode {
  if (!below && !above) return base;
  const [under, over, both] =
    place === "below" ? ["munder", "mover", "munderover"] : ["msub", "msup", "msubsup"];
  if (below && above) return node(both!, [base, below, above]);
  return below ? node(under!, [base, below]) : node(over!, [base, above!]);
}

/** Changes the letters of a formula. */
function restyled(from: MathNode, change: (text: string) => string): MathNode {
  if (typeof from.content !== "string") {
    return { ...from, content: from.content.map((part) => restyled(part, change)) };
  }
  return from.tag === "mi" || from.tag === "mn" ? { ...from, content: change(from.content) } : from;
}

/** Text in a formula. Formulas inside it are not understood. */
function plain(text: string): string {
  if (/(^|[^\\])\$|\\[a-zA-Z]/.test(text)) throw new NotUnderstood("formula in text");
  // Spaces at the ends of an element are not shown otherwise.
  return text
    .replace(/\\(.)/g, "$1")
    .replace(/[{}]/g, "")
    .replace(/^\s+|\s+$/g, "\u00A0");
}
