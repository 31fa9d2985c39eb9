import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { devNull, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'fflate';
import { z } from 'zod';
import { changelogPage, newestEntry, versionsOf } from './versions.ts';

const run = promisify(execFile);
const bytesMax = 268_435_456;
export const sumsFile = 'SHA256SUMS';
export const sbomFile = 'sbom.cdx.json';

/** Why nothing was released, for the person who releases. */
export class CannotRelease extends Error {
  override readonly name = 'CannotRelease';
}

/** `tag`: the tag that is released, `v0.1.0`. Without it, the changelog needs no date. */
type Release = { root: string; folder: string; tag?: string | undefined };

/**
 * Writes the archive of the present commit, what it is made of, and the SHA-256 sums of both into an empty folder. The same commit gives
 * the same archive on every machine, and with the same npm the same list of packages. Returns the text of the sums. Throws `CannotRelease`.
 */
export async function buildRelease({ root, folder, tag }: Release): Promise<string> {
  const version = await releasableVersion(root, tag);
  const name = `inference-service-${version}`;
  const committedAt = new Date((await git(root, 'show', '--no-patch', '--format=%cI', 'HEAD')).trim()).toISOString();
  const archive = await archiveOf(root, name);
  const sbom = await sbomOf(root, { committedAt, archiveHash: sha256(archive) });
  const files = new Map<string, Uint8Array | string>([
    [`${name}.tar.gz`, archive],
    [sbomFile, sbom],
  ]);
  const sums = [...files].map(([file, content]) => `${sha256(content)}  ${file}\n`).join('');
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  for (const [file, content] of [...files, [sumsFile, sums] as const]) await writeFile(join(folder, file), content);
  return sums;
}

async function releasableVersion(root: string, tag: string | undefined): Promise<string> {
  const changed = await git(root, 'status', '--porcelain');
  if (changed !== '') throw new CannotRelease(`These files are not committed:\n${changed}`);
  const versions = versionsOf(root);
  const [version = '', ...others] = new Set(versions.values());
  const places = [...versions].map(([place, each]) => `  ${each} ${place}\n`).join('');
  if (others.length > 0) throw new CannotRelease(`The versions differ:\n${places}`);
  if (tag === undefined) return version;
  const { date } = newestEntry(await readFile(join(root, changelogPage), 'utf8'));
  if (tag !== `v${version}`) throw new CannotRelease(`The tag is ${tag}, and the version is ${version}.\n`);
  if (!/^\d{4}-\d{2}-\d{2}$/.test(date)) throw new CannotRelease(`${changelogPage} has no date for ${version}.\n`);
  return version;
}

/**
 * An archive of what is committed, with the time of the commit. Compression by zlib differs between versions and processors, so it is done
 * in JavaScript, without the time and the system that gzip has in its head.
 */
async function archiveOf(root: string, name: string): Promise<Uint8Array> {
  const settings = ['tar.umask=0022', 'core.autocrlf=false', 'core.eol=lf', `core.attributesFile=${devNull}`];
  const args = [...settings.flatMap((each) => ['-c', each]), 'archive', '--format=tar', `--prefix=${name}/`, 'HEAD'];
  const { stdout } = await run('git', args, { cwd: root, encoding: 'buffer', maxBuffer: bytesMax });
  const archive = gzipSync(stdout, { level: 9, mtime: 0 });
  archive[systemByte] = unknownSystem;
  return archive;
}

/** RFC 1952, 2.3. */
const [systemByte, unknownSystem] = [9, 255];

const sbomSchema = z.looseObject({
  serialNumber: z.string(),
  metadata: z.looseObject({ timestamp: z.string(), component: z.looseObject({ name: z.string() }) }),
});

type Described = { committedAt: string; archiveHash: string };

/** CycloneDX, of what an image installs. Its number comes from the archive, and its time is that of the commit. */
async function sbomOf(root: string, { committedAt, archiveHash }: Described): Promise<string> {
  const { metadata, ...sbom } = sbomSchema.parse(JSON.parse(await npmSbom(root)));
  const digits = `${archiveHash.slice(0, 12)}8${archiveHash.slice(13, 16)}8${archiveHash.slice(17, 32)}`;
  const uuid = digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  const hashes = [{ alg: 'SHA-256', content: archiveHash }];
  const component = { ...metadata.component, name: 'inference-service', hashes }; // npm names it as its folder
  const described = {
    ...sbom,
    ...{ serialNumber: `urn:uuid:${uuid}`, metadata: { ...metadata, timestamp: committedAt, component } },
  };
  return `${JSON.stringify(described, undefined, 2)}\n`;
}

const packageSchema = z.looseObject({ devDependencies: z.unknown(), optionalDependencies: z.unknown() });
const lockSchema = z.looseObject({
  packages: z.record(
    z.string(),
    z.looseObject({ dev: z.boolean(), optional: z.boolean(), devOptional: z.boolean() }).partial(),
  ),
});

/**
 * `npm sbom --omit=dev` also leaves out each package that a development dependency has in common with the service, such as Koa. So it gets
 * a lock of only what `npm ci --omit=dev --omit=optional` installs.
 */
async function npmSbom(root: string): Promise<string> {
  const read = async (path: string) => JSON.parse(await readFile(join(root, path), 'utf8')) as unknown;
  const { devDependencies, optionalDependencies, ...own } = packageSchema.parse(await read('package.json'));
  const lock = lockSchema.parse(await read('package-lock.json'));
  const installed = Object.entries(lock.packages).filter(
    ([, each]) => !each.dev && !each.optional && !each.devOptional,
  );
  const packages = { ...Object.fromEntries(installed), '': own };
  const folder = await mkdtemp(join(tmpdir(), 'sbom-'));
  try {
    await writeFile(join(folder, 'package.json'), JSON.stringify(own));
    await writeFile(join(folder, 'package-lock.json'), JSON.stringify({ ...lock, packages }));
    const args = ['sbom', '--sbom-format=cyclonedx', '--sbom-type=application', '--package-lock-only'];
    const { stdout } = await run('npm', args, { cwd: folder, maxBuffer: bytesMax });
    return stdout;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function git(root: string, ...args: string[]): Promise<string> {
  const { stdout } = await run('git', ['-c', 'log.showSignature=false', ...args], { cwd: root, maxBuffer: bytesMax });
  return stdout;
}

function sha256(content: Uint8Array | string): string {
  return createHash('sha256').update(content).digest('hex');
}
