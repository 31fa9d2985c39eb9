import { createHash } from 'node:crypto';
import { z } from 'zod';
import { isObject } from '../../json/json-values.ts';
import type { PlanFile } from '../../plan-file/plan-file.ts';
import type { Collection, Decision } from '../documents.ts';
import { type AuditRecord, auditIdFor, type PlanFileChange } from './audit-records.ts';

const digestsSchema = z.array(z.object({ name: z.string(), digest: z.string() }));
const contentsSchema = z.object({
  models: digestsSchema,
  backends: digestsSchema,
  plans: digestsSchema,
  others: digestsSchema,
});

/** The names of what a plan file has, each with a digest of what it says. */
export type PlanFileContents = z.infer<typeof contentsSchema>;

const historySchema = z.object({
  id: z.string(),
  version: z.int(),
  generations: z.array(z.string()),
  contents: contentsSchema,
  outbox: z.array(z.looseObject({ id: z.string() })),
});

/**
 * The plan files that have been in force: `generations` are the last ones, the latest last, which is number `version`. `contents` are of
 * the latest. `outbox`: audit records that are not copied yet.
 */
type PlanFileHistory = z.infer<typeof historySchema>;

/** There is one document. */
export const planFileHistoryId = 'plan_file';

export const planFileHistoryOf = {
  name: 'plan_file_history',
  schema: historySchema,
  id: 'id',
  indexes: {},
} as const satisfies Collection;

const generationsMax = 100;
const noContents: PlanFileContents = { models: [], backends: [], plans: [], others: [] };

type InForce = { generation: string; contents: PlanFileContents; at: Date };

/**
 * Notes that a process works with a plan file. `known` is the number of the plan file that it noted before. A change that another process
 * has noted since then is not noted again, so all processes together leave one record of it (contract.md#r14-plan-files-in-force). Returns
 * the number of this one.
 */
export function notePlanFile({ generation, contents, at }: InForce, known: number | undefined) {
  return (kept: PlanFileHistory | undefined): Decision<PlanFileHistory, number> => {
    const { version = 0, generations = [] } = kept ?? {};
    const before = version - generations.length; // the number of the one before the first
    const since = known === undefined || known < before ? version - 1 : known;
    const index = generations.findIndex((each, index) => each === generation && before + index + 1 > since);
    if (index >= 0) return { result: before + index + 1 };
    if (generations.at(-1) === generation) return { result: version };
    const from = generations.at(-1) ?? null;
    const planFile = { from, to: generation, ...differences(kept?.contents ?? noContents, contents) };
    const next = {
      id: planFileHistoryId,
      version: version + 1,
      generations: [...generations, generation].slice(-generationsMax),
      contents,
      outbox: [...(kept?.outbox ?? []), recordOf(planFile, { number: version + 1, at })],
    };
    return { result: version + 1, next };
  };
}

export function contentsOf({ models, backends, plans, ...others }: PlanFile): PlanFileContents {
  return {
    models: digestsOf(models),
    backends: digestsOf(backends),
    plans: digestsOf(plans),
    others: digestsOf(others),
  };
}

function digestsOf(section: Readonly<Record<string, unknown>>): PlanFileContents['models'] {
  return Object.entries(section)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ({ name, digest: digestOf(value) }));
}

/** The order of names makes no difference. */
function digestOf(value: unknown): string {
  const sorted = (_name: string, part: unknown) =>
    isObject(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([one], [other]) => (one < other ? -1 : 1)))
      : part;
  return createHash('sha256').update(JSON.stringify(value, sorted)).digest('hex').slice(0, 12);
}

/** A plan file can have thousands of names, which can be long. */
const [namesMax, nameLengthMax] = [50, 200];

function differences(before: PlanFileContents, after: PlanFileContents): Omit<PlanFileChange, 'from' | 'to'> {
  const sections = (['models', 'backends', 'plans'] as const).flatMap((section) => {
    const names = differencesIn(before[section], after[section]);
    return names === undefined ? [] : [[section, names] as const];
  });
  const others = differencesIn(before.others, after.others);
  const changed = others === undefined ? [] : [...others.added, ...others.removed, ...others.changed].sort();
  return { ...Object.fromEntries(sections), others: changed };
}

function differencesIn(before: PlanFileContents['models'], after: PlanFileContents['models']) {
  const [was, is] = [before, after].map((digests) => new Map(digests.map(({ name, digest }) => [name, digest])));
  const added = after.filter(({ name }) => !was?.has(name));
  const removed = before.filter(({ name }) => !is?.has(name));
  const changed = after.filter(({ name, digest }) => was?.has(name) && was.get(name) !== digest);
  const lists = { added: shown(added), removed: shown(removed), changed: shown(changed) };
  const count = added.length + removed.length + changed.length;
  const more = count - Object.values(lists).flat().length;
  return count === 0 ? undefined : { ...lists, more };
}

function shown(digests: PlanFileContents['models']): string[] {
  return digests.slice(0, namesMax).map(({ name }) => name.slice(0, nameLengthMax).toWellFormed());
}

function recordOf(planFile: PlanFileChange, { number, at }: { number: number; at: Date }): AuditRecord {
  const id = auditIdFor(`plan file ${number}`, at);
  return { id, at, kind: 'plan_file', actor: null, address: null, account: null, change: { planFile }, reason: null };
}
