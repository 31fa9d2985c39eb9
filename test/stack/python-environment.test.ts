import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { provideFolder } from './python-environment.ts';

/** A name that no other test has; what is made for it is removed. */
function ownName(t: ExecutionContext): string {
  const name = `test-${randomUUID()}`;
  t.teardown(async () => {
    const cache = new URL('../../node_modules/.cache/', import.meta.url);
    for (const entry of await readdir(cache)) {
      if (entry.startsWith(name)) await rm(new URL(entry, cache), { recursive: true });
    }
  });
  return name;
}

test('a folder is made once, however many ask for it at once, and again for other content', async (t) => {
  const name = ownName(t);
  let made = 0;
  const make = async (folder: string) => {
    made++;
    await mkdir(folder);
    await writeFile(join(folder, 'file'), '');
  };
  const folders = await Promise.all(
    Array.from({ length: 3 }, () => provideFolder({ name, content: ['a', 'b'] }, make)),
  );
  t.is(new Set(folders).size, 1);
  t.true(existsSync(join(folders[0] ?? '', 'file')));
  t.is(made, 1);
  t.not(await provideFolder({ name, content: ['ab'] }, make), folders[0]);
  t.is(made, 2);
});

test('what was not finished is never used, and is removed', async (t) => {
  const name = ownName(t);
  const unfinished = async (folder: string) => {
    await mkdir(folder);
    throw new Error('no more space');
  };
  await t.throwsAsync(provideFolder({ name, content: ['a'] }, unfinished), { message: 'no more space' });
  let other = '';
  const folder = await provideFolder({ name, content: ['a'] }, async (making) => {
    other = making;
    await mkdir(making);
  });
  t.true(existsSync(folder));
  t.false(existsSync(other));
  const left = (await readdir(dirname(folder))).filter((entry) => entry.startsWith(name) && !entry.endsWith('.lock'));
  t.is(left.length, 1);
});
