import assert from "node:assert/strict";
import { test } from "node:test";
import { blocks, toHtml } from "../src/markdown/parse.ts";
import { escapeBidi } from "../src/markdown/bidi.ts";

test("HTML in a response is escaped", () => {
  for (const source of [
    "<script>alert(1)</script>",
    "a <img src=x onerror=alert(1)> b",
    "<svg onload=alert(1)>",
    "<!-- x --><iframe src=//evil>",
  ]) {
    assert.doesNotMatch(toHtml(source), /<(script|img|svg|iframe|!--)/, source);
  }
});

test("only allowed schemes become links, and images become links", () => {
  assert.match(
    toHtml("[a](https://x.example/?a=1&b=2)"),
    /<a href="https:\/\/x.example\/\?a=1&amp;b=2"/,
  );
  assert.match(toHtml("![cat](http://x.example/c.png)"), /<a [^>]*>image: cat<\/a>/);
  for (const source of [
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt:alert(1))",
    "[a](data:text/html,x)",
    "![a](data:image/svg+xml,x)",
    "[a](vbscript:x)",
    "[a](//evil.example)",
    "[a](/flush_cache)",
    "<javascript:alert(1)>",
  ]) {
    assert.doesNotMatch(toHtml(source), /<a|<img/, source);
  }
  assert.doesNotMatch(toHtml('[a](https://x.example/"onclick="y)'), /"onclick/);
});

test("joined blocks equal the source", () => {
  const sources = [
    "",
    "\n\na\n\n",
    "# h\n\ntext\nmore\n\n- a\n- b\n\n1. x\n\n   y\n\n```js\ncode\n\nmore\n```\n\n| a |\n|---|\n| b |\n",
    "```\nnever closed\n\nmore",
    "> a\n> b\n\nc\n***\nd",
    "<div>\n\nx\n</div>\n",
    "[a]: http://x\n\n[a]",
  ];
  for (const source of sources) assert.equal(blocks(source).join(""), source);
  assert.equal(blocks("a\n\nb\n\nc").length, 3);
});

test("bidirectional controls are shown as code points", () => {
  assert.equal(escapeBidi("a\u202Eb\u2066c\u200Fd"), "a[U+202E]b[U+2066]c\u200Fd");
});
