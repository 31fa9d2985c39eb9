import { h } from 'preact';
import type { RawPlanFile } from '../../../shared/plan-file/plan-file-schema.ts';
import type { ServiceSettings } from '../../routes/settings.ts';
import type { Api } from '../api/api.ts';
import { useLoaded, usePolled } from '../api/use-loaded.ts';
import { formatLimit, formatTime } from '../page/format.ts';
import { StateBadge } from '../page/icons.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { type Column, Table } from '../page/table.ts';

/** The plan file in force, and which process works with which. */
export function SettingsPage({ api }: { api: Api }) {
  const loaded = useLoaded((signal) => api.call<ServiceSettings>('/admin/settings', { signal }), []);
  usePolled(loaded);
  return [
    h('h1', { tabIndex: -1 }, 'Settings'),
    h(LoadedView<ServiceSettings>, {
      loaded,
      what: 'the settings',
      children(settings) {
        const planFile = settings.plan_file as RawPlanFile; // it has the shape of the plan file
        return [
          h(PlanFileState, { settings }),
          h(ProcessTable, { settings }),
          h(PlanTable, { planFile }),
          h(ModelTable, { planFile }),
          h(BackendTable, { planFile }),
          h(OtherSettings, { planFile }),
        ];
      },
    }),
  ];
}

/** The generation in force at this ingress, and why a later one is not. */
function PlanFileState({ settings: { generation, next, issues } }: { settings: ServiceSettings }) {
  return h(
    'section',
    { 'aria-labelledby': 'plan-file' },
    h('h2', { id: 'plan-file' }, 'Plan file'),
    h('p', null, 'In force: generation ', h('code', null, generation), '.'),
    next !== null &&
      h(
        'p',
        { class: 'notice', role: 'status' },
        'A later plan file, generation ',
        h('code', null, next.generation),
        `, is not in force yet. It waits for a worker of: ${next.waits_for.join(', ')}.`,
      ),
    issues.length > 0 &&
      h(
        'div',
        { class: 'failure', role: 'alert' },
        h('p', null, 'The plan file was changed and is invalid, so the earlier one stays in force:'),
        h(
          'ul',
          null,
          issues.map((issue) => h('li', { key: issue }, issue)),
        ),
      ),
  );
}

type Process = ServiceSettings['processes'][number];

function ProcessTable({ settings }: { settings: ServiceSettings }) {
  const stateOf = ({ generation, issues }: Process) => {
    if (issues > 0) return h(StateBadge, { state: 'its file is invalid', tone: 'bad' });
    return generation === settings.generation ? 'as this ingress' : h(StateBadge, { state: 'another', tone: 'moving' });
  };
  return h(Table<Process>, {
    caption: 'Processes',
    rows: settings.processes,
    rowKey: ({ id }) => id,
    columns: [
      { title: 'Process', cell: ({ kind, id }) => `${kind} ${id}` },
      { title: 'Generation', cell: ({ generation }) => h('code', null, generation) },
      { title: 'Plan file', cell: stateOf },
      { title: 'Pools', cell: ({ pools }) => pools.join(', ') || '–', holds: 'text' },
      { title: 'Started', cell: ({ started_at }) => formatTime(started_at) },
    ],
  });
}

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

function PlanTable({ planFile }: Props) {
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

function ModelTable({ planFile }: Props) {
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

function BackendTable({ planFile }: Props) {
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
function OtherSettings({ planFile }: Props) {
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
