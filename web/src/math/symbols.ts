/** Commands that stand for one symbol. */

/** Parses `name symbol name symbol …`. */
const table = (text: string): Map<string, string> => {
  const words = text.trim().split(/\s+/);
  const map = new Map<string, string>();
  for (let at = 0; at + 1 < words.length; at += 2) map.set(words[at]!, words[at + 1]!);
  return map;
};

export const IDENTIFIERS = table(`
  alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ lambda λ
  mu μ nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ phi ϕ varphi φ chi χ
  psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω
  infty ∞ partial ∂ nabla ∇ hbar ℏ ell ℓ Re ℜ Im ℑ aleph ℵ wp ℘ emptyset ∅ varnothing ∅ imath ı jmath ȷ
  degree ° angle ∠ triangle △ square □ blacksquare ■ checkmark ✓ top ⊤ bot ⊥ dagger † S § P ¶ pounds £
`);

export const OPERATORS = table(`
  cdot ⋅ times × div ÷ pm ± mp ∓ ast ∗ star ⋆ circ ∘ bullet ∙ oplus ⊕ ominus ⊖ otimes ⊗ odot ⊙ wedge ∧ land ∧
  vee ∨ lor ∨ cap ∩ cup ∪ setminus ∖ neg ¬ lnot ¬ forall ∀ exists ∃ nexists ∄
  le ≤ leq ≤ ge ≥ geq ≥ ne ≠ neq ≠ ll ≪ gg ≫ equiv ≡ approx ≈ sim ∼ simeq ≃ cong ≅ propto ∝ doteq ≐ prec ≺ succ ≻
  leqslant ⩽ geqslant ⩾ lesssim ≲ gtrsim ≳ in ∈ notin ∉ ni ∋ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇ nsubseteq ⊈
  perp ⟂ parallel ∥ mid ∣ nmid ∤ vdash ⊢ models ⊨ therefore ∴ because ∵ colon : coloneqq ≔ triangleq ≜
  to → rightarrow → leftarrow ← gets ← leftrightarrow ↔ uparrow ↑ downarrow ↓ updownarrow ↕ mapsto ↦
  Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ implies ⟹ impliedby ⟸ iff ⟺ longrightarrow ⟶ longleftarrow ⟵
  Longrightarrow ⟹ Longleftrightarrow ⟺ hookrightarrow ↪ rightharpoonup ⇀ rightleftharpoons ⇌ nearrow ↗ searrow ↘
  ldots … dots … cdots ⋯ vdots ⋮ ddots ⋱ prime ′ lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ langle ⟨ rangle ⟩
  lbrace { rbrace } lbrack [ rbrack ] lvert | rvert | vert | lVert ‖ rVert ‖ Vert ‖ backslash ∖
  { { } } | ‖ % % $ $ # # & & _ _
`);

/** Operators that are large in displayed formulas, with limits above and below. */
export const LARGE = table(`
  sum ∑ prod ∏ coprod ∐ bigcup ⋃ bigcap ⋂ bigvee ⋁ bigwedge ⋀ bigoplus ⨁ bigotimes ⨂ bigodot ⨀ bigsqcup ⨆
`);

/** Integrals, whose limits are at their side. */
export const INTEGRALS = table("int ∫ iint ∬ iiint ∭ oint ∮ oiint ∯");

export const FUNCTIONS = new Set(
  "arccos arcsin arctan arg cos cosh cot coth csc deg dim exp hom ker lg ln log sec sin sinh tan tanh".split(
    " ",
  ),
);

/** Functions with limits below them in displayed formulas. */
export const LIMITS = new Set(
  "argmax argmin det gcd inf lim liminf limsup max min Pr sup".split(" "),
);

/** Marks above a letter or group. */
export const ACCENTS = table(`
  hat ^ widehat ^ bar ¯ overline ¯ vec → overrightarrow → overleftarrow ← tilde ~ widetilde ~ dot ˙ ddot ¨
  acute ´ grave \` check ˇ breve ˘ overbrace ⏞
`);

export const ACCENTS_BELOW = table("underline _ underbrace ⏟");

/** Widths of spaces, in em. */
export const SPACES: Record<string, number> = {
  ",": 0.167,
  ":": 0.222,
  ">": 0.222,
  ";": 0.278,
  "!": -0.167,
  " ": 0.25,
  "~": 0.25,
  thinspace: 0.167,
  medspace: 0.222,
  enspace: 0.5,
  quad: 1,
  qquad: 2,
};

/** Delimiters of matrices by environment. */
export const MATRICES: Record<string, [left: string, right: string]> = {
  matrix: ["", ""],
  smallmatrix: ["", ""],
  pmatrix: ["(", ")"],
  bmatrix: ["[", "]"],
  Bmatrix: ["{", "}"],
  vmatrix: ["|", "|"],
  Vmatrix: ["‖", "‖"],
  array: ["", ""],
  cases: ["{", ""],
};

/** Environments of aligned lines. */
export const LINES = new Set(
  "align align* aligned alignat gather gather* gathered split equation equation* multline eqnarray".split(
    " ",
  ),
);
