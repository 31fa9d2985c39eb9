import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { helpText } from '../../../shared/process/run-process.ts';
import { settingDefaults } from '../../../shared/process/settings.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const files = { ingress: 'ingress/main.ts', worker: 'workers/main.ts' } as const;
/** No settings, and one that is wrong: help does not read them. */
const env = {
  PATH: process.env.PATH,
  REDIS_URI: 'wrong',
  NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/compile'),
};
const options = { cwd: root, env, encoding: 'utf8' } as const;

for (const name of ['ingress', 'worker'] as const) {
  test(`--help of the ${name} lists each of its settings with its default and a line about it, required ones first`, (t) => {
    const text = execFileSync(process.execPath, [files[name], '--help'], options);
    t.is(text, helpText(name));
    const [head = '', settings = ''] = text.split('\nRequired:\n');
    t.regex(
      head,
      new RegExp(
        `^The ${name} of inference-service \\d+\\.\\d+\\.\\d+ .*\\n\\n  node --env-file=\\.env ${files[name]}\\n`,
      ),
    );
    t.regex(head, /\/docs;\ningress\/documentation\/configuration\.md /);
    const listed = [...settings.matchAll(/^ {2}([A-Z_]+)(?: \((.*)\))?\n {6}(\S.*)$/gm)];
    t.is(settings.split('\n').length, 2 * listed.length + 3, 'two lines for each, and one between the two lists');
    const { required = [], optional = [] } = Object.groupBy(settingDefaults[name], ([, text]) =>
      text === 'required' ? 'required' : 'optional',
    );
    t.deepEqual(
      listed.map(([, setting = '']) => setting),
      [...required, ...optional].map(([setting]) => setting),
    );
    for (const [, setting = '', shown = '', meaning = ''] of listed) {
      const fixed = settingDefaults[name].get(setting) ?? '';
      if (fixed === 'required') t.is(shown, '', setting);
      else if (fixed !== '') t.is(shown, fixed, setting);
      else t.regex(shown, /\w/, setting);
      t.true(meaning.length >= 12 && meaning.length <= 160, `${setting}: ${meaning}`);
      t.notRegex(meaning, /[`[\]()*]|\.$|^the same/, setting);
    }
  });

  test(`any other argument of the ${name} is refused, without its text`, (t) => {
    const args = name === 'ingress' ? ['--help', 'hunter2'] : ['--port=hunter2'];
    const { status, stdout, stderr } = spawnSync(process.execPath, [files[name], ...args], options);
    t.is(status, 1);
    t.is(stdout, '');
    t.regex(stderr, new RegExp(`^The ${name} has no arguments except --help\\. Its settings are variables`));
    t.notRegex(stderr, /hunter2/);
  });
}
