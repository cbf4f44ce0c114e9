"""What names mean in the languages that have a grammar, and what is said where only names agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from ohmo.codeintel.answers import Answers, Asked
from tests.unit.codeintel.marked import Marked

CORPUS = {
    "javascript": {
        "a.js": """
import <df:def>, {<f:f>, <f:f> as <f:g>} from './lib/index';
import * as ns from './lib.js';
import <^:out> from 'outside';
const {<!n:n>, k: <!m:m>} = <f:f>(<^:out>);
function <!h:h>(<!p:p>, {<!q:q>} = <n:n>, ...<!r:r>) {
  <v:v> = 1;
  var <!v:v> = <p:p> + <q:q> + <r:r>.<~:length>;
  for (const <!i:i> of <v:v>) <i:i>.<~:method>();
  try { <h:h>(); } catch (<!e:e>) { <e:e>; }
  return <!x:x> => <x:x> + <m:m>;
}
class <!C:C> {
  <!fld:fld> = <f:g>;
  <!mm:mm>() { return this.<fld:fld> + this.<mm:mm>() + ns.<f:f>(); }
}
new <C:C>().<~:mm>;
let obj = {a: 1, <h:h>};
<undefined_thing>;
""".replace("<undefined_thing>", "undefinedThing"),
        "lib/index.js": "export * from './inner';\nexport default function <!df:dflt>() {}\n".replace(
            "<!df:dflt>", "<!df:def>"
        ),
        "lib/inner.mjs": "export function <!f:f>() {}\n",
        "lib.js": "export {<f:f>} from './lib/inner.mjs';\n",
    },
    "typescript": {
        "a.ts": """
import type { <I:I> } from './t';
export interface <!J:J> extends <I:I> { <!ja:a>: <T:T>; <!jm:m>(<!x:x>: number): void }
type <!T:T> = <J:J> | null;
enum <!E:E> { A, <!EB:B> = 2 }
abstract class <!C:C> {
  constructor(private <!y:y>: <I:I>, z?: number) { this.<~:y>; <y:y>; }
  <!cm:m>(): <T:T> { return this.<cm:m>(); }
}
namespace <!N:N> { export const z = 1 }
let <!u:u>: <C:C> = null as any; <u:u>.<~:m>(); <E:E>.<~:B>;
""",
        "t.ts": "export interface <!I:I> {}\n",
        "r.ts": "export {<I:I> as <I:Out>} from './t';\n",
        "s.ts": "import {<I:Out>} from './r';\nlet <!s:s>: <I:Out>;\n",
    },
    "go": {
        "go.mod": "module example.com/m\n",
        "main.go": """package main
import (
	"fmt"
	u "example.com/m/util"
)
type <!T:T> struct { <!A:A> int }
func (t *<T:T>) <!M:M>(<!a:a> int) (<!r:r> error) {
	<!x:x> := <a:a>
	for _, <!v:v> := range u.<F:F>(<x:x>) { _ = <v:v> }
	if <!e:e> := <G:G>(); <e:e> != nil { return <e:e> }
	t.<~:A> = <K:K>
	return <r:r>
}
const <!K:K> = 1
var q = <T:T>{<~:A>: <K:K>}
""",
        "other.go": "package main\nfunc <!G:G>() error { return nil }\n",
        "util/u.go": "package util\nfunc <!F:F>(x int) []int { return nil }\n",
    },
    "rust": {
        "src/main.rs": """mod a;
use crate::a::{<f:f>, <S:S> as <S:R>};
mod n { pub fn <!nf:nf>() {} }
fn main() {
    let <!x1:x> = 1;
    let <!x2:x> = <x1:x> + 1;
    let (<!y:y>, _) = (<x2:x>, 2);
    for <!i:i> in 0..<y:y> { <f:f>(<i:i>); a::<f:f>(1); }
    if let Some(<!k:k>) = Some(1) { <k:k>; }
    match <y:y> { Some(<!w:w>) if <w:w> > 1 => <w:w>, _ => 1 };
    let c = |<!p:p>, <!q:q>: i32| <p:p> + <q:q>;
    let s: <S:R> = <S:S>::<~:new>();
    s.<~:go>();
}
struct <!L:L> { <!la:a>: i32 }
impl <L:L> { fn <!lm:m>(&self) -> i32 { self.<lm:m>() } }
const <!C:C>: i32 = 2;
static D: i32 = <C:C>;
""".replace("<S:S>::<~:new>", "<S:R>::<~:new>"),
        "src/a/mod.rs": "pub fn <!f:f>(x: i32) {}\npub struct <!S:S> {}\nimpl <S:S> { pub fn go(&self) {} }\n",
    },
    "java": {
        "src/a/b/Main.java": """package a.b;
import c.<Other:Other>;
class <!Main:Main> extends <Peer:Peer> {
  int <!x:x>;
  <!ctor:Main>(int <!p:p>) { this.<x:x> = <p:p>; }
  <Other:Other> <!m:m>(String... <!s:s>) {
    for (String <!q:q> : <s:s>) { <q:q>.<~:length>(); <m:m>(<q:q>); }
    for (int <!i:i> = 0; <i:i> < 1; ) {}
    try { } catch (Exception <!e:e>) { <e:e>.<~:print>(); }
    Runnable r = () -> <m:m>();
    Func f = (<!u:u>, v) -> <u:u> + <x:x>;
    int <!y:y> = <x:x>;
    return new <Other:Other>(<y:y>);
  }
  enum <!N:N> { <!P:P>, Q }
}
""",
        "src/a/b/Peer.java": "package a.b;\nclass <!Peer:Peer> {}\n",
        "src/c/Other.java": "package c;\npublic class <!Other:Other> { }\n",
    },
}


@pytest.mark.parametrize("name", sorted(CORPUS))
def test_every_name_means_what_is_marked(name: str, tmp_path: Path) -> None:
    assert Marked(tmp_path, CORPUS[name]).wrong() == []


@pytest.mark.parametrize(
    ("name", "key"),
    [("javascript", "f"), ("typescript", "I"), ("go", "T"), ("rust", "f"), ("java", "Other")],
)
def test_references_cross_files_by_imports(name: str, key: str, tmp_path: Path) -> None:
    marked = Marked(tmp_path, CORPUS[name])
    assert marked.found_uses(key) == marked.uses(key)


def test_members_of_something_else_are_told_apart_as_known_by_name_only(tmp_path: Path) -> None:
    marked = Marked(tmp_path, CORPUS["rust"])
    answer = Answers(marked.workspace(), str(tmp_path)).answer(Asked("references", name="go"))
    sure, _, unsure = answer.partition("by name only")
    assert "src/a/mod.rs\n  3:" in sure
    assert "s.go();" in unsure
    assert "s.go();" not in sure


def test_what_a_type_holds_stands_below_it(tmp_path: Path) -> None:
    marked = Marked(tmp_path, CORPUS["go"])
    answers = Answers(marked.workspace(), str(tmp_path))
    outline = answers.answer(Asked("document", str(tmp_path / "main.go")))
    assert "6 T struct { A int }\n6   A int\n" in outline
    assert answers.answer(Asked("definition", name="T.A")) == "main.go:6 A int (in T)"


@pytest.mark.parametrize("path", ["a.ts", "main.go", "src/main.rs", "src/a/b/Main.java"])
def test_a_file_with_an_error_is_read_around_it_and_that_is_said(path: str, tmp_path: Path) -> None:
    language = next(files for files in CORPUS.values() if path in files)
    marked = Marked(tmp_path, {path: language[path] + "\n}} ((( fn class\n"})
    answer = Answers(marked.workspace(), str(tmp_path)).answer(
        Asked("document", str(tmp_path / path))
    )
    assert "not understood" in answer
    assert len(answer.split("\n")) > 4
