import { h } from 'preact';
import type { RawPlanFile } from '../../../shared/plan-file/plan-file-schema.ts';
import type { ServiceSettings } from '../../routes/settings.ts';
import type { Api } from '../api/api.ts';
import { useLoaded, usePolled } from '../api/use-loaded.ts';
import { formatDay, formatLimit, formatTime } from '../page/format.ts';
import { StateBadge } from '../page/icons.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { type Column, Table } from '../page/table.ts';
import { otherSettings, type PriceInWords, pricesOf, type SettingInWords } from './plan-file-words.ts';

/** The plan file in force, and which process works with which. */
export function PlanFilePage({ api }: { api: Api }) {
  const loaded = useLoaded((signal) => api.call<ServiceSettings>('/admin/settings', { signal }), []);
  usePolled(loaded);
  return [
    h('h1', { tabIndex: -1 }, 'Plan file'),
    h(LoadedView<ServiceSettings>, {
      loaded,
      what: 'the plan file',
      lines: 20,
      children(settings) {
        const planFile = settings.plan_file as RawPlanFile; // it has the shape of the plan file
        return [
          h(PlanFileState, { settings }),
          h(ProcessTable, { settings }),
          h(PlanTable, { planFile }),
          h(ModelTable, { planFile }),
          h(BackendTable, { planFile }),
          h(PriceTable, { planFile }),
          h(OtherSettings, { planFile }),
        ];
      },
    }),
  ];
}

/** The version in force at this ingress, and why a later one is not. */
function PlanFileState({ settings: { generation, next, issues } }: { settings: ServiceSettings }) {
  return h(
    'section',
    { 'aria-label': 'State' },
    h('p', null, 'In force: version ', h('code', null, generation), '. To change it, change the file.'),
    next !== null &&
      h(
        'p',
        { class: 'notice', role: 'status' },
        'A later plan file, version ',
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
      { title: 'Version', cell: ({ generation }) => h('code', null, generation) },
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

type LimitName = {
  [Name in keyof Plan[1]]-?: Plan[1][Name] extends number | undefined ? Name : never;
}[keyof Plan[1]];

const limits: readonly (readonly [title: string, name: LimitName])[] = [
  ['Requests per minute', 'requests_per_minute'],
  ['Tokens per minute', 'tokens_per_minute'],
  ['Tokens per month', 'tokens_per_month'],
  ['Overage per month', 'overage_tokens_per_month'],
  ['Requests per day', 'requests_per_day'],
  ['Requests at once', 'requests_at_once'],
];

/** A limit that no plan has is left out. */
function PlanTable({ planFile }: Props) {
  const rows = Object.entries(planFile.plans);
  const used = limits.filter(([, name]) => rows.some(([, plan]) => plan[name] !== undefined));
  return h(Table<Plan>, {
    caption: 'Plans',
    rows,
    rowKey: ([name]) => name,
    columns: [
      { title: 'Plan', cell: ([name]) => (name === planFile.default_plan ? `${name} (default)` : name) },
      { title: 'Tiers', cell: ([, plan]) => plan.model_tiers.join(', '), holds: text },
      ...used.map(([title, name]) => ({
        title,
        cell: ([, plan]: Plan) => formatLimit(plan[name] ?? null),
        holds: number,
      })),
      { title: 'Overage by', cell: ([, plan]) => (plan.overage === 'operator' ? 'operators' : 'the account') },
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
  const rows = Object.entries(planFile.backends);
  const keyed = rows.some(([, { api_key_env: env, api_key_file: file }]) => env !== undefined || file !== undefined);
  const key: Column<Backend> = {
    title: 'API key from',
    cell: ([, { api_key_env: env, api_key_file: file }]) => env ?? file ?? '–',
    holds: text,
  };
  return h(Table<Backend>, {
    caption: 'Backends',
    rows,
    rowKey: ([name]) => name,
    columns: [
      { title: 'Backend', cell: ([name]) => name },
      { title: 'Address', cell: ([, backend]) => backend.url, holds: text },
      { title: 'Location', cell: ([, backend]) => backend.location },
      { title: 'Calls at once', cell: ([, backend]) => limitOf(backend), holds: number },
      { title: 'Model there', cell: ([, backend]) => backend.model ?? '–' },
      ...(keyed ? [key] : []),
    ],
  });
}

function PriceTable({ planFile }: Props) {
  const rows = pricesOf(planFile);
  if (rows.length === 0) return null;
  const price = (title: string, priceOf: (row: PriceInWords) => string): Column<PriceInWords> => ({
    ...{ title, cell: priceOf, holds: number },
  });
  return h(Table<PriceInWords>, {
    caption: `Prices of a million tokens in ${planFile.currency}`,
    rows,
    rowKey: ({ model, from }) => `${model} ${from}`,
    columns: [
      { title: 'Model', cell: ({ model }) => model },
      { title: 'From (UTC)', cell: ({ from }) => formatDay(from) },
      price('Prompt', ({ prompt }) => prompt),
      price('Cached prompt', ({ cached }) => cached),
      price('Completion', ({ completion }) => completion),
    ],
  });
}

/** The rest of the plan file in words, each setting with its name there. */
function OtherSettings({ planFile }: Props) {
  return h(Table<SettingInWords>, {
    caption: 'Other settings',
    rows: otherSettings(planFile),
    rowKey: ({ path }) => path,
    columns: [
      { title: 'What', cell: ({ words }) => words, holds: text, phone: 'first' },
      { title: 'Value', cell: ({ value }) => value, holds: text, phone: 'end' },
      { title: 'Name', cell: ({ path }) => h('code', null, path), phone: 'second' },
    ],
  });
}
