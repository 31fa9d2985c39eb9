import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { access, mkdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { z } from 'zod';
import { type ServerProcess, spawnServer } from './server-process.ts';

const run = promisify(execFile);
const pom = fileURLToPath(new URL('pom.xml', import.meta.url));
/** What runs it, by the jars of `fetchJars`. */
export const program = fileURLToPath(new URL('MongoJavaServer.java', import.meta.url));
const cache = fileURLToPath(new URL('../../../node_modules/.cache/mongo-java-server', import.meta.url));

/** One collector thread: the tests need the cores. */
const jvmOptions = ['-Xmx1g', '-XX:+UseSerialGC'];

const fetchMsMax = 600_000;
const startMsMax = 60_000;

/** mongo-java-server on a free port of this machine. Throws if Java 17, Maven or the jars are not available. */
export async function startJavaServer(): Promise<{ process: ServerProcess; url: string }> {
  const jars = await fetchJars();
  const server = spawnServer('java', [...jvmOptions, '-cp', join(jars, '*'), program]);
  try {
    const [, port] = await server.said(/^listening (\d+)$/m, startMsMax);
    return { process: server, url: `mongodb://127.0.0.1:${port}` };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** The folder of the jars in `pom.xml`: fetched once, and again when `pom.xml` changes. */
export async function fetchJars(): Promise<string> {
  const wanted = createHash('sha256')
    .update(await readFile(pom))
    .digest('hex');
  const folder = join(cache, wanted.slice(0, 16));
  if (await exists(folder)) return folder;

  // Has another name until it is complete, so that an interrupted or concurrent fetch is never mistaken for it.
  const unfinished = `${folder}.${randomUUID()}`;
  await mkdir(unfinished, { recursive: true });
  const goal = ['dependency:copy-dependencies', `-DoutputDirectory=${unfinished}`];
  try {
    await run('mvn', ['-q', '-B', '-f', pom, ...goal], { timeout: fetchMsMax });
    await rename(unfinished, folder);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    if (await exists(folder)) return folder;
    const said = z.object({ stdout: z.string() }).safeParse(error).data?.stdout.trim(); // Maven writes the reason there
    throw new Error(`Maven could not fetch the jars: ${said || error}`, { cause: error });
  }
  return folder;
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
