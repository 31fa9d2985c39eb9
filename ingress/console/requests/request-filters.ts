import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Model } from '../../routes/models.ts';
import type { Api } from '../api/api.ts';
import { useLoaded } from '../api/use-loaded.ts';
import { endpointPaths } from '../keys/key-restrictions.ts';
import { foundLink, type RequestFilter, requestLink, requestsLink } from '../page/console-route.ts';
import { Choice, LabelledInput, namedOptions, Select, TextField } from '../page/fields.ts';
import { codeWords } from './code-words.ts';
import { type RangeName, rangeNameOf, rangeNames, timesOf, timeText, withRange } from './request-range.ts';

type Props = { filter: RequestFilter };

/** Each choice is in the address, so that it can be shared and Back returns to it. */
function show(filter: RequestFilter): void {
  window.location.hash = requestsLink(filter);
}

/** The times that are listed: up to now, or any. */
export function RangeChoice({ filter }: Props) {
  const name = rangeNameOf(filter);
  const times = timesOf(filter, Date.now() / 1_000);
  const choose = (wanted: RangeName) => show(withRange(filter, wanted === 'own' ? times : wanted));
  const set = (field: 'start' | 'end') => (seconds: number) => show(withRange(filter, { ...times, [field]: seconds }));
  return [
    h(Choice<RangeName>, { legend: 'Time', options: rangeNames, chosen: name, choose }),
    name === 'own' && [
      h(TimeField, { key: 'start', label: 'From', seconds: times.start, set: set('start') }),
      h(TimeField, { key: 'end', label: 'Until', seconds: times.end, set: set('end') }),
    ],
  ];
}

type TimeFieldProps = { label: string; seconds: number; set: (seconds: number) => void };

/** In the time zone of the user. Taken when the field is left: each key of an unfinished time would be another one. */
function TimeField({ label, seconds, set }: TimeFieldProps) {
  const change = ({ currentTarget }: { currentTarget: HTMLInputElement }) => {
    const ms = new Date(currentTarget.value).getTime();
    if (!Number.isNaN(ms)) set(ms / 1_000);
  };
  return h(TextField, {
    label,
    value: localTime(seconds),
    change: () => {},
    input: { type: 'datetime-local', step: 60, required: true, onChange: change },
  });
}

function localTime(seconds: number): string {
  const offsetMs = new Date(seconds * 1_000).getTimezoneOffset() * 60_000;
  return timeText(seconds - offsetMs / 1_000).slice(0, 16);
}

/** An ending is an outcome, or the code of an error. */
const outcomes = ['completed', 'failed', 'cancelled', 'lost'];
const results = new Map([
  ['completed', 'completed'],
  ['failed', 'failed, any code'],
  ['cancelled', 'cancelled'],
  ['lost', 'lost'],
  ...Object.keys(codeWords).map((code) => [code, code] as const),
]);

const slower = new Map([
  ['1000', '1 s'],
  ['5000', '5 s'],
  ['10000', '10 s'],
  ['30000', '30 s'],
  ['60000', '1 min'],
  ['300000', '5 min'],
]);

type FilterProps = Props & { api: Api; keyNames: ReadonlyMap<string, string> };

export function Filters({ api, filter, keyNames }: FilterProps) {
  const models = useLoaded((signal) => api.call<{ data: Model[] }>('/v1/models', { signal }), []);
  const set = (...names: (keyof RequestFilter)[]) =>
    function change(value: string, name = names[0]) {
      const others = Object.fromEntries(
        Object.entries(filter).filter(([each]) => !names.some((one) => one === each)),
      ) as RequestFilter; // of some of its fields
      const named = rangeNameOf(filter);
      const ranged = named === 'own' ? others : withRange(others, named);
      show(value === '' || name === undefined ? ranged : { ...ranged, [name]: value });
    };
  const setResult = set('code', 'outcome');
  const modelNames = namedOptions((models.value?.data ?? []).map(({ id }) => id));
  return h(
    'div',
    { class: 'filters', role: 'group', 'aria-label': 'Filters' },
    h(Filter, {
      label: 'Result',
      all: 'any result',
      options: results,
      value: filter.code ?? filter.outcome,
      set: (value) => setResult(value, outcomes.includes(value) ? 'outcome' : 'code'),
    }),
    h(Filter, {
      label: 'Endpoint',
      all: 'all endpoints',
      options: namedOptions(Object.values(endpointPaths).flat()),
      value: filter.endpoint,
      set: set('endpoint'),
    }),
    h(Filter, { label: 'Key', all: 'all keys', options: keyNames, value: filter.key_id, set: set('key_id') }),
    h(Filter, { label: 'Model', all: 'all models', options: modelNames, value: filter.model, set: set('model') }),
    h(Filter, {
      label: 'Slower than',
      all: 'any time',
      options: slower,
      value: filter.slower_than_ms,
      set: set('slower_than_ms'),
    }),
    filter.batch_id !== undefined &&
      h(Filter, {
        label: 'Batch',
        all: 'all requests',
        options: new Map(),
        value: filter.batch_id,
        set: set('batch_id'),
      }),
  );
}

type OneFilterProps = {
  label: string;
  all: string;
  options: ReadonlyMap<string, string>;
  value: string | undefined;
  set: (value: string) => void;
};

/** What the address names stays on offer, also if it is none of the options. */
function Filter({ label, all, options, value = '', set }: OneFilterProps) {
  const named: [string, string][] = value === '' || options.has(value) ? [] : [[value, value]];
  return h(Select<string>, { label, options: new Map([['', all], ...options, ...named]), value, change: set });
}

export function FindForm({ isOwn }: { isOwn: boolean }) {
  const [typed, setTyped] = useState('');
  const submit = (event: Event) => {
    event.preventDefault();
    const id = typed.trim();
    if (id !== '') window.location.hash = isOwn ? requestLink(id) : foundLink(id);
  };
  return h(
    'form',
    { role: 'search', onSubmit: submit },
    h(LabelledInput, {
      label: 'Find by ID',
      type: 'search',
      value: typed,
      change: setTyped,
      input: { placeholder: 'x-request-id, or the id of an answer', spellcheck: false, maxLength: 200 },
    }),
    h('button', { type: 'submit' }, 'Find'),
  );
}
