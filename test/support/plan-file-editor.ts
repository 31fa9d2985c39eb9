import { readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse, stringify } from 'yaml';
import { z } from 'zod';
import { generationOf } from '../../shared/plan-file/plan-file.ts';

/** The plan file of a stack, as it is written: everything in it can be changed. */
export type EditedPlan = {
  default_plan: string;
  plans: Record<string, Record<string, unknown>>;
  models: Record<string, { tier: string; pool: string; backends: string[]; output_tokens_max: number }>;
  backends: Record<string, Record<string, unknown>>;
  timeouts: Record<string, number>;
  [key: string]: unknown;
};

/** `in place` as editors write, `renamed` as deployment tools do, `linked` as a Kubernetes config map is updated. */
export type Way = 'in place' | 'renamed' | 'linked';
export const ways: readonly Way[] = ['in place', 'renamed', 'linked'];

const readiness = z.object({
  planFile: z.object({
    generation: z.string(),
    next: z.object({ generation: z.string(), waitsFor: z.array(z.string()) }).optional(),
    issues: z.array(z.string()),
  }),
});

export type PlanFileShown = z.infer<typeof readiness>['planFile'];
type Process = { operationsUrl: string };

/** Longer than any change may take on a busy machine. */
const untilMs = 30_000;

/** Changes the plan file of running processes. */
export function createPlanEditor({ planFile }: { planFile: string }) {
  let written = 0;

  const text = () => readFile(planFile, 'utf8');

  async function write(next: string, way: Way = 'renamed'): Promise<void> {
    const file = `${planFile}.${++written}`;
    if (way === 'in place') return writeFile(planFile, next);
    await writeFile(file, next);
    if (way === 'renamed') return rename(file, planFile);
    const link = join(dirname(planFile), 'plans.link');
    await rm(link, { force: true });
    await symlink(file, link);
    await rename(link, planFile);
  }

  async function change(edit: (plan: EditedPlan) => void, way?: Way): Promise<string> {
    const plan = parse(await text()) as EditedPlan; // written by `stringify`
    edit(plan);
    const changed = stringify(plan, { aliasDuplicateObjects: false });
    await write(changed, way);
    return generationOf(changed);
  }

  /** What each process shows, once all of them show what is wanted. */
  async function until(processes: readonly Process[], isWanted: (shown: PlanFileShown) => boolean) {
    const by = performance.now() + untilMs;
    while (true) {
      const shown = await Promise.all(processes.map(shownBy));
      if (shown.every(isWanted)) return shown;
      if (performance.now() > by) throw new Error(`the processes still show ${JSON.stringify(shown)}`);
      await sleep(20);
    }
  }

  return { text, write, change, until };
}

type Running = { planFile: string; ingresses: readonly Process[]; workers: readonly Process[] };

/** Changes time limits of the plan file. Returns when they are in force in every process. */
export async function changeTimeouts(stack: Running, timeouts: Record<string, number>): Promise<void> {
  const editor = createPlanEditor(stack);
  const written = await editor.change((plan) => {
    plan.timeouts = { ...plan.timeouts, ...timeouts };
  });
  await editor.until([...stack.ingresses, ...stack.workers], ({ generation }) => generation === written);
}

export async function shownBy({ operationsUrl }: Process): Promise<PlanFileShown> {
  return readiness.parse(await (await fetch(`${operationsUrl}/readyz`)).json()).planFile;
}
