import { h } from 'preact';
import type { RawPlanFile } from '../../../shared/plan-file/plan-file-schema.ts';
import { type Column, Table } from '../controls/table.ts';
import { formatLimit } from '../page/format.ts';

type Props = { planFile: RawPlanFile };
type NamedEntry<Value> = [name: string, value: Value];
type Plan = NamedEntry<RawPlanFile['plans'][string]>;
type Model = NamedEntry<RawPlanFile['models'][string]>;
type Backend = NamedEntry<RawPlanFile['backends'][string]>;

const number = 'number' as const;
const text = 'text' as const;

function limitColumn(title: string, limitOf: (plan: Plan[1]) => number | undefined): Column<Plan> {
  return { title, cell: ([, plan]) => formatLimit(limitOf(plan) ?? null), holds: number };
}

export function PlanTable({ planFile }: Props) {
  return h(Table<Plan>, {
    caption: 'Plans',
    rows: Object.entries(planFile.plans),
    rowKey: ([name]) => name,
    columns: [
      { title: 'Plan', cell: ([name]) => (name === planFile.default_plan ? `${name} (default)` : name) },
      { title: 'Tiers', cell: ([, plan]) => plan.model_tiers.join(', '), holds: text },
      limitColumn('Requests per minute', (plan) => plan.requests_per_minute),
      limitColumn('Tokens per minute', (plan) => plan.tokens_per_minute),
      limitColumn('Tokens per month', (plan) => plan.tokens_per_month),
      limitColumn('Overage per month', (plan) => plan.overage_tokens_per_month),
      { title: 'Overage by', cell: ([, plan]) => (plan.overage === 'operator' ? 'operators' : 'the account') },
      limitColumn('Requests per day', (plan) => plan.requests_per_day),
      limitColumn('Requests at once', (plan) => plan.requests_at_once),
      { title: 'Priority', cell: ([, plan]) => plan.priority, holds: number },
    ],
  });
}

export function ModelTable({ planFile }: Props) {
  const aliases = Map.groupBy(Object.entries(planFile.aliases), ([, model]) => model);
  const aliasesOf = (name: string) => (aliases.get(name) ?? []).map(([alias]) => alias).join(', ') || '–';
  return h(Table<Model>, {
    caption: 'Models',
    rows: Object.entries(planFile.models),
    rowKey: ([name]) => name,
    columns: [
      { title: 'Model', cell: ([name]) => name },
      { title: 'Tier', cell: ([, model]) => model.tier },
      { title: 'Pool', cell: ([, model]) => model.pool },
      { title: 'Backends', cell: ([, model]) => model.backends.join(', '), holds: text },
      { title: 'Endpoints', cell: ([, model]) => model.endpoints.join(', '), holds: text },
      { title: 'Max output tokens', cell: ([, model]) => formatLimit(model.output_tokens_max ?? null), holds: number },
      { title: 'Aliases', cell: ([name]) => aliasesOf(name), holds: text },
    ],
  });
}

export function BackendTable({ planFile }: Props) {
  const limitOf = ({ requests_at_once: limit, per_worker: isOfWorker }: Backend[1]) =>
    `${formatLimit(limit ?? null)}${limit !== undefined && isOfWorker ? ' per worker' : ''}`;
  return h(Table<Backend>, {
    caption: 'Backends',
    rows: Object.entries(planFile.backends),
    rowKey: ([name]) => name,
    columns: [
      { title: 'Backend', cell: ([name]) => name },
      { title: 'Address', cell: ([, backend]) => backend.url, holds: text },
      { title: 'Location', cell: ([, backend]) => backend.location },
      { title: 'Calls at once', cell: ([, backend]) => limitOf(backend), holds: number },
      { title: 'Model there', cell: ([, backend]) => backend.model ?? '–' },
      { title: 'Variable of the API key', cell: ([, backend]) => backend.api_key_env ?? '–' },
    ],
  });
}

const inTables = new Set(['plans', 'models', 'aliases', 'backends', 'default_plan']);

/** The rest of the plan file: each setting with its path. */
export function OtherSettings({ planFile }: Props) {
  const others = Object.entries(planFile).filter(([name]) => !inTables.has(name));
  return h(Table<NamedEntry<string>>, {
    caption: 'Other settings',
    rows: others.flatMap(([name, value]) => settingsAt(name, value)),
    rowKey: ([path]) => path,
    columns: [
      { title: 'Setting', cell: ([path]) => path },
      { title: 'Value', cell: ([, value]) => value, holds: text },
    ],
  });
}

function settingsAt(path: string, value: unknown): NamedEntry<string>[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [[path, JSON.stringify(value)]];
  return Object.entries(value).flatMap(([name, part]) => settingsAt(`${path}.${name}`, part));
}
