import test from 'ava';
import { importsOf, type SourceFile } from '../support/source-files.ts';
import { chooseTests } from './choose-tests.ts';

function treeOf(texts: Record<string, string>): SourceFile[] {
  return Object.entries(texts).map(([path, text]) => ({ path, text, imports: importsOf(path, text) }));
}

test('chooses the tests named for a file and those that import it, and no test of the complete service', (t) => {
  const files = treeOf({
    'shared/a.ts': '',
    'shared/a-b.ts': '',
    'test/shared/a.test.ts': "import { a } from '../../shared/a.ts';",
    'test/shared/a-hostile.test.ts': '',
    'test/shared/c.test.ts': "import { c } from './c.ts';\nimport { a } from '../../shared/a.ts';",
    'test/shared/d.test.ts': "import type {\n  A,\n} from '../../shared/a.ts';",
    'test/flows/e.test.ts': "import { a } from '../../shared/a.ts';",
  });
  t.deepEqual(chooseTests(files, 'shared/a.ts'), [
    'test/shared/a-hostile.test.ts',
    'test/shared/a.test.ts',
    'test/shared/c.test.ts',
  ]);
});

test('chooses the nearest tests if none imports the file itself, and none if there are none', (t) => {
  const files = treeOf({
    'shared/a.ts': '',
    'shared/b.ts': "import { a } from './a.ts';",
    'shared/c.ts': "import { b } from './b.ts';",
    'shared/alone.ts': '',
    'test/shared/b.test.ts': "import { b } from '../../shared/b.ts';",
    'test/shared/c.test.ts': "import { c } from '../../shared/c.ts';",
  });
  t.deepEqual(chooseTests(files, 'shared/a.ts'), ['test/shared/b.test.ts']);
  t.deepEqual(chooseTests(files, 'shared/alone.ts'), []);
});

test('chooses only tests of its own folder if there are any', (t) => {
  const files = treeOf({
    'shared/a.ts': '',
    'test/shared/b.test.ts': "import { a } from '../../shared/a.ts';",
    'test/workers/c.test.ts': "import { a } from '../../shared/a.ts';",
  });
  t.deepEqual(chooseTests(files, 'shared/a.ts'), ['test/shared/b.test.ts']);
  t.deepEqual(
    chooseTests(
      files.filter(({ path }) => path !== 'test/shared/b.test.ts'),
      'shared/a.ts',
    ),
    ['test/workers/c.test.ts'],
  );
});

test('an import cycle ends the search', (t) => {
  const files = treeOf({ 'shared/a.ts': "import { b } from './b.ts';", 'shared/b.ts': "import { a } from './a.ts';" });
  t.deepEqual(chooseTests(files, 'shared/a.ts'), []);
});
