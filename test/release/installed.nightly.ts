import { execFile } from 'node:child_process';
import { glob, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import test from 'ava';
import { z } from 'zod';
import { commitProject } from '../support/committed-project.ts';
import { buildRelease, sbomFile } from './build-release.ts';

const run = promisify(execFile);
const named = z.object({ name: z.string(), version: z.string() });
const sbomSchema = z.object({ components: z.array(z.object({ purl: z.string() })) });

test('a release that is installed without packages of tests starts, and its SBOM names exactly what was installed', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'installed-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const project = join(folder, 'project');
  await commitProject(project);
  const built = join(folder, 'built');
  await buildRelease({ root: project, folder: built });
  await run('tar', ['xzf', join(built, (await Array.fromAsync(glob('*.tar.gz', { cwd: built })))[0] ?? '')], {
    cwd: folder,
  });
  const [unpacked = ''] = await Array.fromAsync(glob(join(folder, 'inference-service-*')));
  await run('npm', ['ci', '--omit=dev', '--omit=optional', '--ignore-scripts'], { cwd: unpacked });

  const sbom = sbomSchema.parse(JSON.parse(await readFile(join(built, sbomFile), 'utf8')));
  const manifests = glob(
    [
      'node_modules/**/node_modules/*/package.json',
      'node_modules/*/package.json',
      'node_modules/@*/*/package.json',
      'node_modules/**/node_modules/@*/*/package.json',
    ],
    { cwd: unpacked },
  );
  const installed = new Set<string>();
  for await (const file of manifests) {
    const { name, version } = named.parse(JSON.parse(await readFile(join(unpacked, file), 'utf8')));
    installed.add(`${name}@${version}`);
  }
  t.deepEqual(
    [...installed].toSorted(),
    sbom.components.map(({ purl }) => decodeURIComponent(purl.slice('pkg:npm/'.length))).toSorted(),
  );

  for (const file of ['ingress/main.ts', 'workers/main.ts']) {
    const help = await run(process.execPath, [file, '--help'], { cwd: unpacked, env: {} });
    t.regex(help.stdout, /^The (ingress|worker) of inference-service /);
    const refused = await t.throwsAsync(run(process.execPath, [file], { cwd: unpacked, env: {} }));
    t.regex(refused?.message ?? '', /REDIS_URL: is required/);
  }
});
