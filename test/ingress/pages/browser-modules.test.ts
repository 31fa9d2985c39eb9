import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { collectBrowserModules } from '../../../ingress/pages/browser-modules.ts';

async function folder(t: ExecutionContext, files: Record<string, string>): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'browser-modules-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
  return directory;
}

test('types are removed, imports are paths for browsers, and modules without importers are left out', async (t) => {
  const directory = await folder(t, {
    'main.ts': `import { h } from 'preact';\nimport type { B } from './types.ts';\nimport { a } from './a.ts';\nexport const b: B = h(a);`,
    'a.ts': `export { h as a } from 'preact';\nexport * from './ring.ts';`,
    'ring.ts': `import './a.ts';\nexport const text = "import x from './no.ts'";`,
    'types.ts': 'export type B = string;',
    'unused.ts': 'export {};',
  });
  const modules = collectBrowserModules({ directory, entry: 'main.ts' });
  t.deepEqual([...modules.keys()], ['main.js', 'packages/preact/dist/preact.js', 'a.js', 'ring.js']);
  const main = modules.get('main.js') ?? '';
  t.regex(main, /import \{ h \} from '\.\/packages\/preact\/dist\/preact\.js';/);
  t.regex(main, /import \{ a \} from '\.\/a\.js';\nexport const b {4}= h\(a\);/);
  t.false(main.includes('types'));
  t.true((modules.get('ring.js') ?? '').includes(`"import x from './no.ts'"`), 'a string is not an import');
});

test('an import between packages resolves', (t) => {
  const directory = fileURLToPath(new URL('../../../ingress/console', import.meta.url));
  const modules = collectBrowserModules({ directory, entry: 'main.ts' });
  const hooks = modules.get('packages/preact/hooks/dist/hooks.js') ?? '';
  t.true(hooks.includes('from"../../dist/preact.js"'), hooks.slice(0, 100));
});

test('an import that does not resolve, or that leads to code of the service, throws', async (t) => {
  const nowhere = await folder(t, { 'main.ts': `import './missing.ts';` });
  t.throws(() => collectBrowserModules({ directory: nowhere, entry: 'main.ts' }), { code: 'ENOENT' });
  const outside = await folder(t, { 'main.ts': `import '../../work/secret.ts';` });
  t.throws(() => collectBrowserModules({ directory: outside, entry: 'main.ts' }), { message: /is not for browsers/ });
});
