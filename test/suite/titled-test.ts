import ava, { type ExecutionContext, type TestFn } from 'ava';
import { afterTests, beforeTests, declareLater, inFileTurn, inTurn } from './file-turns.ts';

const { searchParams } = new URL(import.meta.url);
/** The file of this copy of the module, by its path from the project folder. */
const file = searchParams.get('file') ?? '';
const isFileByFile = searchParams.has('fileByFile');
const isAlone = searchParams.has('alone');

type Implementation = (t: ExecutionContext) => unknown;
/** Longer than anything that a test waits for. */
const withoutAssertionMs = 180_000;
const eachHook = /^(before|after)Each$/;

/**
 * The test function of a file that shares its process with others. Titles begin with the file's path, so that they are unique and say
 * which file they are in. Hooks for each test do not affect the tests of other files.
 */
export default titled(ava, []);

function titled<Chain extends object>(chain: Chain, names: readonly string[]): Chain {
  return new Proxy(chain, {
    get(target, name, receiver) {
      const next: unknown = Reflect.get(target, name, receiver);
      return typeof next === 'function' && typeof name === 'string' ? titled(next, [...names, name]) : next;
    },
    apply(target, self, args: unknown[]) {
      const [first, ...others] = typeof args[0] === 'string' ? args : ['', ...args];
      const title = `${file}: ${first}`;
      const call = target as unknown as (...args: unknown[]) => void; // every link of ava's chain is callable
      const [implementation, ...more] = others;
      if (typeof implementation !== 'function' || names.includes('skip'))
        return declareLater(() => Reflect.apply(call, self, [title, ...others]));
      const prove = implementation as Implementation; // as its file passed it to ava
      const isHook = names.some((name) => /^(before|after)/.test(name));
      const run: Implementation = isHook || isAlone ? prove : (t) => withTimeLimit(t, prove);
      if (isFileByFile) return declareInTurn(names, title, run);
      const forEach = names.some((name) => eachHook.test(name));
      const own = (t: ExecutionContext) => {
        if (forEach) return t.title.includes(`${file}: `) ? run(t) : undefined;
        return isHook ? run(t) : inTurn(file, () => run(t));
      };
      return declareLater(() => Reflect.apply(call, self, [title, own, ...more]));
    },
  }) as Chain;
}

/**
 * A test that waits for what does not happen fails, instead of all that are still running when AVA gives up. It may set its own limit.
 * AVA's timer is one of the process, so a test that replaces these has none.
 */
function withTimeLimit(t: ExecutionContext, prove: Implementation): unknown {
  t.timeout(withoutAssertionMs, 'no assertion was made for so long');
  return prove(t);
}

/** A hook gets no argument from ava, because it runs after ava has started all tests. Hooks of one file run at the same time. */
function declareInTurn(names: readonly string[], title: string, run: Implementation): void {
  const hook = run as () => unknown;
  const others = names.filter((name) => !['serial', 'before', 'after', 'always', 'failing'].includes(name));
  const isHook = names.includes('before') || names.includes('after');
  const isOther =
    isHook && (run.length > 0 || names.includes('serial') || names.includes('after') !== names.includes('always'));
  if (others.length > 0 || isOther) throw new Error(`${title}: test.${names.join('.')} cannot be run file by file`);
  if (names.includes('before')) beforeTests(file, hook);
  else if (names.includes('after')) declareLater(() => ava.after.always(title, afterTests(file, hook)));
  else {
    const declare = names.includes('failing') ? ava.failing : ava;
    declareLater(() => declare(title, inFileTurn(file, { isSerial: names.includes('serial'), run })));
  }
}

export type { TestFn };
