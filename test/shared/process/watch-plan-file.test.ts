import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rename, rm, symlink, truncate, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import {
  generationOf,
  type ParsedPlanFile,
  parseInThread,
  parsePlanFile,
  planWarnings,
} from '../../../shared/plan-file/plan-file.ts';
import { watchPlanFile } from '../../../shared/process/watch-plan-file.ts';
import { planText } from '../../support/plan-text.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const text = (requests: number) =>
  planText(({ plans }) => Object.assign(plans.free, { requests_per_minute: requests }));

/** `look` lets the watch look once, and resolves when it waits for the next look. */
async function start(t: ExecutionContext) {
  const folder = await mkdtemp(join(tmpdir(), 'plan-file-'));
  const file = join(folder, 'plans.yaml');
  await writeFile(file, text(1));
  const initial = parsePlanFile(text(1));
  if ('issues' in initial) throw new Error('the plan file of the tests is wrong');
  const changes: (string | undefined)[] = [];
  const { log, lines } = recordedLog();
  let next = Promise.withResolvers<void>();
  let waits = Promise.withResolvers<void>();
  const watch = watchPlanFile({
    source: { file, initial, parse: parseInThread, warningsOf: (plan) => planWarnings(plan) },
    planFile: { generation: () => initial.generation },
    onChanged: (read: ParsedPlanFile | undefined) => changes.push(read?.generation),
    log,
    look(signal) {
      next = Promise.withResolvers();
      signal.addEventListener('abort', () => next.resolve(), { once: true });
      waits.resolve();
      return next.promise;
    },
  });
  t.teardown(async () => {
    await watch[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });
  async function look(times = 1): Promise<void> {
    for (let looks = 0; looks < times; looks++) {
      waits = Promise.withResolvers();
      next.resolve();
      await waits.promise;
    }
  }
  return { folder, file, watch, changes, lines, look };
}

test('a new file with a probable mistake is used, with one warning in the log', async (t) => {
  const { file, changes, lines, look } = await start(t);
  const mistaken = planText(({ plans }) => Object.assign(plans.free, { model_tiers: ['guest', 'gold'] }));
  await writeFile(file, mistaken);
  await look(3);
  t.deepEqual(changes, [generationOf(mistaken)]);
  t.deepEqual(
    lines.map(({ level, fields }) => ({ level, fields })),
    [{ level: 'warn', fields: { warnings: ['plans.free.model_tiers: no model has the tier "gold"'] } }],
  );
});

test('a text counts once two looks in a row have found it', async (t) => {
  const { file, changes, look } = await start(t);
  await look(3);
  await writeFile(file, text(2).slice(0, 40));
  await look();
  await writeFile(file, text(2));
  await look();
  t.deepEqual(changes, []);
  await look();
  t.deepEqual(changes, [generationOf(text(2))]);
  await look(2);
  t.is(changes.length, 1);
});

test('a file that is renamed over it and a symbolic link on the way to it are seen', async (t) => {
  const { folder, file, changes, look } = await start(t);
  await writeFile(`${file}.next`, text(2));
  await rename(`${file}.next`, file);
  await look(2);
  await writeFile(`${file}.linked`, text(3));
  await symlink(`${file}.linked`, join(folder, 'link'));
  await rename(join(folder, 'link'), file);
  await look(2);
  t.deepEqual(changes, [generationOf(text(2)), generationOf(text(3))]);
});

test('an invalid or missing file is reported once with its issues, and a valid one ends that', async (t) => {
  const { file, watch, changes, lines, look } = await start(t);
  await writeFile(file, 'plans: [');
  await look(4);
  t.deepEqual(changes, [undefined]);
  t.regex(watch.issues().join(), /line 1/);
  t.is(lines.length, 1);
  t.like(lines[0], { message: 'the plan file is invalid; the earlier one stays in force' });
  await rm(file);
  await look(3);
  t.deepEqual(watch.issues(), [`PLAN_FILE: cannot read ${file} (ENOENT)`]);
  await writeFile(file, text(1));
  await look(2);
  t.deepEqual(watch.issues(), []);
  t.deepEqual(changes, [undefined, undefined, generationOf(text(1))]);
});

test('what is no file, or far too large, or cannot be reached, is reported without being read', async (t) => {
  const { file, watch, look } = await start(t);
  const becomes = async (make: () => unknown) => {
    await rm(file, { recursive: true, force: true });
    await make();
    await look(2);
    return watch.issues();
  };
  const says = (reason: string) => [`PLAN_FILE: cannot read ${file} (${reason})`];
  t.deepEqual(await becomes(() => execFileSync('mkfifo', [file])), says('not a regular file'));
  t.deepEqual(await becomes(() => mkdir(file)), says('not a regular file'));
  t.deepEqual(await becomes(() => symlink(file, file)), says('ELOOP'));
  t.deepEqual(await becomes(() => writeFile(file, '').then(() => truncate(file, 2 ** 32))), says('too large'));
  t.deepEqual(await becomes(() => writeFile(file, Buffer.alloc(300_000))), [': is longer than 262144 characters']);
  t.deepEqual(await becomes(() => writeFile(file, text(2))), []);
});

test('a write that leaves the size and the modification time as they were is seen', async (t) => {
  const { file, changes, look } = await start(t);
  const at = new Date(1_900_000_000_000);
  for (const requests of [2, 3, 4]) {
    await writeFile(file, text(requests));
    await utimes(file, at, at);
    await look(requests === 3 ? 3 : 2);
  }
  t.deepEqual(changes, [generationOf(text(2)), generationOf(text(3)), generationOf(text(4))]);
});

test('after it is disposed of it looks no more', async (t) => {
  const { file, watch, changes } = await start(t);
  await writeFile(file, text(2));
  await watch[Symbol.asyncDispose]();
  t.deepEqual(changes, []);
});
