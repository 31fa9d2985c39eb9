import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cp, lstat, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test, { type ExecutionContext } from 'ava';
import { z } from 'zod';
import { commitProject, git } from '../support/committed-project.ts';
import { projectFiles } from '../support/source-files.ts';
import { buildRelease, CannotRelease, sbomFile, sumsFile } from './build-release.ts';
import { changelogPage } from './versions.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const version = z.object({ version: z.string() });
let folder: string;
let project: string;

/** A repository with the files of this project as they are on this disk. */
test.before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'release-'));
  project = join(folder, 'one');
  await commitProject(project);
});

test.after.always(() => rm(folder, { recursive: true, force: true }));

const builtFiles = async (built: string) => {
  const names = (await readdir(built)).toSorted();
  const hashOf = async (name: string) =>
    createHash('sha256')
      .update(await readFile(join(built, name)))
      .digest('hex');
  return new Map(await Promise.all(names.map(async (name) => [name, await hashOf(name)] as const)));
};

async function refusal(t: ExecutionContext, tag?: string): Promise<string> {
  const release = { root: project, folder: join(folder, 'refused'), tag };
  const error = await t.throwsAsync(buildRelease(release), { instanceOf: CannotRelease });
  await t.throwsAsync(readdir(release.folder), { code: 'ENOENT' }, 'nothing was written');
  return error?.message ?? '';
}

test.serial(
  'the same commit gives the same bytes: in another folder, with other times, rights and settings of git',
  async (t) => {
    const first = join(folder, 'built');
    const sums = await buildRelease({ root: project, folder: first });
    const other = join(folder, 'elsewhere', 'two');
    await git(folder, 'clone', '--quiet', '--config', 'tar.umask=0077', project, other);
    for (const [name, value] of Object.entries({ 'core.autocrlf': 'true', 'tar.umask': '0', 'core.abbrev': '40' }))
      await git(other, 'config', name, value);
    await utimes(join(other, 'README.md'), 1, 1);
    const second = join(folder, 'again');
    t.is(await buildRelease({ root: other, folder: second }), sums);
    const [built, again] = [await builtFiles(first), await builtFiles(second)];
    t.deepEqual(again, built);
    const archive = `inference-service-${version.parse(JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))).version}.tar.gz`;
    t.deepEqual([...built.keys()], [sumsFile, archive, sbomFile].toSorted());
    t.is(sums, [archive, sbomFile].map((name) => `${built.get(name)}  ${name}\n`).join(''));
    await run('sha256sum', ['--check', '--strict', sumsFile], { cwd: first });
  },
);

test.serial(
  'the archive has exactly the files of the commit in one folder: none that git ignores, no secret and no data',
  async (t) => {
    for (const ignored of [
      '.env',
      'plans.yaml',
      '.data/secrets.json',
      'node_modules/a/index.js',
      '.release/old',
      'x.log',
    ])
      await cp(join(root, '.npmrc'), join(project, ignored));
    const built = join(folder, 'built');
    await buildRelease({ root: project, folder: built });
    const archive = [...(await builtFiles(built)).keys()].find((name) => name.endsWith('.tar.gz')) ?? '';
    const unpacked = join(folder, 'unpacked');
    await cp(join(built, archive), join(unpacked, archive));
    await run('tar', ['xzf', archive], { cwd: unpacked });
    const name = archive.replace('.tar.gz', '');
    const entries = await readdir(join(unpacked, name), { recursive: true, withFileTypes: true });
    const files = entries
      .filter((entry) => !entry.isDirectory())
      .map((entry) => join(entry.parentPath, entry.name).slice(join(unpacked, name).length + 1));
    t.deepEqual(files.toSorted(), projectFiles().toSorted());
    t.deepEqual(
      files.filter((file) => /(^|\/)(\.env|\.data|\.release|node_modules)(\/|$)|\.(log|pem|key|sqlite)$/.test(file)),
      [],
    );
    for (const needed of [
      'package.json',
      'package-lock.json',
      '.env.example',
      'ingress/deployment/plans.example.yaml',
      'docker-compose.yml',
    ])
      t.true(files.includes(needed), needed);
    for (const side of ['ingress', 'workers'])
      t.true((await lstat(join(unpacked, name, side, 'main.ts'))).isSymbolicLink());
  },
);

const sbomSchema = z.object({
  bomFormat: z.literal('CycloneDX'),
  serialNumber: z.string().regex(/^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/),
  metadata: z.object({
    timestamp: z.string(),
    component: z.object({
      name: z.string(),
      type: z.string(),
      version: z.string(),
      hashes: z.array(z.object({ content: z.string() })),
    }),
  }),
  components: z.array(z.object({ name: z.string(), version: z.string(), hashes: z.array(z.unknown()).min(1) })),
});
const packageSchema = z.object({
  version: z.string(),
  dependencies: z.record(z.string(), z.string()),
  devDependencies: z.record(z.string(), z.string()),
});

test.serial(
  'the SBOM names each package that the service uses, with its version and hash, the archive, and nothing of tests',
  async (t) => {
    const built = join(folder, 'built');
    const { metadata, components } = sbomSchema.parse(JSON.parse(await readFile(join(built, sbomFile), 'utf8')));
    const { dependencies, devDependencies, ...own } = packageSchema.parse(
      JSON.parse(await readFile(join(root, 'package.json'), 'utf8')),
    );
    const listed = new Map(components.map((each) => [each.name, each.version]));
    for (const [name, wanted] of Object.entries(dependencies)) {
      const found = components.filter((each) => each.name === name).map((each) => each.version);
      t.true(found.includes(wanted), name);
    }
    t.true(components.length > 2 * Object.keys(dependencies).length, 'also what these need');
    const lock = z.object({ packages: z.record(z.string(), z.object({ dev: z.boolean().optional() })) });
    const { packages } = lock.parse(JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')));
    const ofTests = Object.keys(devDependencies).filter((name) => packages[`node_modules/${name}`]?.dev === true);
    t.true(ofTests.length > 10);
    t.deepEqual(
      ofTests.filter((name) => listed.has(name)),
      [],
    );
    const archives = [...(await builtFiles(built))].filter(([name]) => name.endsWith('.tar.gz'));
    t.deepEqual(metadata.component, {
      ...{ name: 'inference-service', type: 'application', version: own.version },
      hashes: archives.map(([, content]) => ({ content })),
    });
    const { stdout } = await git(project, 'show', '--no-patch', '--format=%ct', 'HEAD');
    t.is(Date.parse(metadata.timestamp), 1_000 * Number(stdout));
  },
);

test.serial(
  'a release is refused with what is not committed, or where the versions differ, and a tag without its version or date',
  async (t) => {
    const { version: present } = version.parse(JSON.parse(await readFile(join(project, 'package.json'), 'utf8')));
    t.regex(await refusal(t, 'v9.9.9'), new RegExp(`The tag is v9\\.9\\.9, and the version is ${present}`));
    const page = await readFile(join(project, changelogPage), 'utf8');
    const withDate = (date: string) => page.replace(/^(## \[\d+\.\d+\.\d+\] - ).*$/m, `$1${date}`);
    await writeFile(join(project, changelogPage), withDate('Unreleased'));
    await git(project, 'commit', '--quiet', '--all', '--allow-empty', '--message', 'no date');
    t.is(await refusal(t, `v${present}`), `${changelogPage} has no date for ${present}.\n`);
    await writeFile(join(project, changelogPage), withDate('2026-12-01'));
    t.is(await refusal(t), `These files are not committed:\n M ${changelogPage}\n`);
    await git(project, 'commit', '--quiet', '--all', '--message', 'the date');
    await writeFile(join(project, 'new.ts'), '');
    t.is(await refusal(t), 'These files are not committed:\n?? new.ts\n');
    await rm(join(project, 'new.ts'));
    t.regex(await buildRelease({ root: project, folder: join(folder, 'tagged'), tag: `v${present}` }), /\.tar\.gz\n/);
    const chart = join(project, 'ingress/deployment/chart/Chart.yaml');
    await writeFile(chart, (await readFile(chart, 'utf8')).replace(/^version: .*$/m, 'version: 9.9.9'));
    await git(project, 'commit', '--quiet', '--all', '--message', 'another version');
    const differ = await refusal(t);
    t.regex(differ, /^The versions differ:\n/);
    t.true(differ.includes('  9.9.9 the chart\n') && differ.includes(`  ${present} package.json\n`), differ);
  },
);
