import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { cacheRoot, missingFor } from '../clients/provide-client.ts';
import { findProgram, installByApt, unpackByApt } from '../stack/install-by-apt.ts';
import { provideFolder } from '../stack/python-environment.ts';
import { fetchJars, program } from '../support/mongodb/java-server.ts';

const run = promisify(execFile);
const composeVersion = '2.40.3';
const npmVersion = '11.19.1';
const timeout = 900_000;
const startMs = 30_000;
const script = fileURLToPath(new URL('make-base-image.sh', import.meta.url));

/** Docker with its own engine, data and Compose. `env` is for commands. */
export type Docker = AsyncDisposable & { env: NodeJS.ProcessEnv };

/**
 * Starts an engine of its own, with an image under each of these names. Throws an error that says why this machine cannot run it. Nothing
 * is pulled: the programs are Debian's and the Go proxy's, and the images are made here.
 */
export async function startDocker(images: readonly string[]): Promise<Docker> {
  if (process.getuid?.() !== 0) throw new Error('a Docker engine needs root');
  if (await isEngineRunning())
    throw new Error('another Docker engine runs here, and both would change the same firewall');
  const missing = missingFor('go');
  if (missing !== undefined) throw new Error(missing);
  for (const name of ['debootstrap', 'iptables']) {
    if (await findProgram(name)) continue;
    await installByApt({
      what: name,
      packages: [name, 'libdevmapper1.02.1', 'libseccomp2'],
      advice: `install ${name}`,
    });
  }
  const programs = await provideDebian();
  const compose = await provideCompose();
  const tars = await provideImages();

  const folder = await mkdtemp('/var/tmp/docker-'); // on a disk: images take more than a gigabyte
  await mkdir(join(folder, 'config', 'cli-plugins'), { recursive: true });
  await symlink(join(compose, 'docker-compose'), join(folder, 'config', 'cli-plugins', 'docker-compose'));
  const path = ['usr/bin', 'usr/sbin'].map((one) => join(programs, one));
  const env = {
    ...process.env,
    PATH: [...path, process.env.PATH].join(':'),
    DOCKER_HOST: `unix://${folder}/socket`,
    DOCKER_CONFIG: join(folder, 'config'),
  };
  const engine = startEngine(folder, env);
  try {
    await engine.ready();
    const trust = 'ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt';
    for (const name of ['haproxy', 'base']) {
      const args = ['import', '--change', trust, '--change', 'WORKDIR /data', join(tars, `${name}.tar`), name];
      await run('docker', args, { env, timeout });
    }
    for (const image of images)
      await run('docker', ['tag', image.startsWith('haproxy:') ? 'haproxy' : 'base', image], { env });
  } catch (error) {
    await engine[Symbol.asyncDispose]();
    throw error;
  }
  return { env, [Symbol.asyncDispose]: engine[Symbol.asyncDispose] };
}

function startEngine(folder: string, env: NodeJS.ProcessEnv) {
  const logFile = join(folder, 'log');
  const flags = `--host ${env.DOCKER_HOST} --data-root ${folder}/data --exec-root ${folder}/run --pidfile ${folder}/pid`;
  // It ends when its standard input does, with its containers: a test that was killed leaves neither an engine nor its firewall behind.
  const life = `
    firewall=$(iptables-save) links=" $(ls /sys/class/net | tr '\\n' ' ') "
    dockerd ${flags} < /dev/null > ${logFile} 2>&1 & engine=$!
    read -r _
    kill $engine; wait $engine
    for link in $(ls /sys/class/net); do [[ $links == *" $link "* ]] || ip link delete $link; done
    for table in nat filter; do iptables --table $table --flush; iptables --table $table --delete-chain; done
    iptables --policy FORWARD ACCEPT
    iptables-restore <<< "$firewall"
    rm -rf --one-file-system ${folder}`;
  const shell = spawn('bash', ['-c', life], { env, stdio: ['pipe', 'ignore', 'ignore'] });
  const ended = once(shell, 'exit');
  return {
    async ready() {
      for (const begunMs = performance.now(); performance.now() - begunMs < startMs; await sleep(200)) {
        const isUp = await run('docker', ['version'], { env }).then(
          () => true,
          () => false,
        );
        if (isUp) return;
      }
      throw new Error(`the engine did not start: ${(await readFile(logFile, 'utf8')).slice(-1_000)}`);
    },
    async [Symbol.asyncDispose]() {
      shell.stdin?.end();
      await ended;
    },
  };
}

async function isEngineRunning(): Promise<boolean> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const names = await Promise.all(ids.map((id) => readFile(`/proc/${id}/comm`, 'utf8').catch(() => '')));
  return names.includes('dockerd\n');
}

function provideDebian(): Promise<string> {
  const packages = ['docker.io', 'containerd', 'runc', 'tini'];
  return provideFolder({ name: 'docker', content: packages, root: cacheRoot }, (folder) =>
    unpackByApt(packages, folder),
  );
}

function provideCompose(): Promise<string> {
  const name = 'github.com/docker/compose/v2';
  return provideFolder({ name: 'compose', content: [composeVersion], root: cacheRoot }, async (folder) => {
    await mkdir(folder, { recursive: true });
    const options = { cwd: folder, timeout };
    await run('go', ['mod', 'init', 'compose'], options);
    await run('go', ['get', `${name}@v${composeVersion}`], options);
    await run('go', ['build', '-mod=mod', '-o', 'docker-compose', `${name}/cmd`], options);
  });
}

async function provideImages(): Promise<string> {
  const jars = await fetchJars();
  const content = [await readFile(script, 'utf8'), await readFile(program, 'utf8'), jars, process.version, npmVersion];
  return provideFolder({ name: 'base-images', content, root: cacheRoot }, async (folder) => {
    await mkdir(folder, { recursive: true });
    await run(script, [folder, process.execPath, npmVersion, jars, program], { timeout });
  });
}
