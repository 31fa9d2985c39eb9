import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { provideGoProgram } from '../clients/provide-client.ts';
import { chartFolder, root } from './chart-page.ts';

const run = promisify(execFile);
const runMs = 60_000;

/** The lowest version that the page names. */
export const kubernetesMin = '1.30.0';

/** The path of Helm. Throws if there is no Go, or if it cannot be built. */
export const provideHelm = () => provideGoProgram('helm.sh/helm/v4/cmd/helm@v4.3.2');

/** The texts of values files, the last one first in effect, and the text of a plan file. */
export type Input = { values: readonly string[]; plans: string };

/** Runs `helm template` or `helm lint` on the chart. Returns what it prints; throws with what it says of an error. */
export async function runHelm(helm: string, command: 'template' | 'lint', { values, plans }: Input): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'helm-'));
  try {
    const files = values.map((_, index) => join(folder, `values-${index}.yaml`));
    for (const [index, file] of files.entries()) await writeFile(file, values[index] ?? '');
    const planFile = join(folder, 'plans.yaml');
    await writeFile(planFile, plans);
    const given = ['--set-file', `planFile.text=${planFile}`, ...files.flatMap((file) => ['--values', file])];
    const common = ['--namespace', 'inference', '--kube-version', kubernetesMin, ...given];
    const own = command === 'lint' ? ['lint', '--strict', chartFolder] : ['template', 'inference', chartFolder];
    const env = { PATH: process.env.PATH, HOME: folder };
    const { stdout } = await run(helm, [...own, ...common], { cwd: root, timeout: runMs, env });
    return stdout;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
