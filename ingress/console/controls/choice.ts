import { h } from 'preact';
import { useId } from 'preact/hooks';

type Props<Name extends string> = {
  legend: string;
  /** The options and their labels. */
  options: Readonly<Record<Name, string>>;
  chosen: Name;
  choose: (name: Name) => void;
};

/** Radio buttons. */
export function Choice<Name extends string>({ legend, options, chosen, choose }: Props<Name>) {
  const group = useId();
  return h(
    'fieldset',
    { class: 'choice' },
    h('legend', null, legend),
    (Object.keys(options) as Name[]).map((name) =>
      h(
        'label',
        { key: name },
        h('input', { type: 'radio', name: group, checked: name === chosen, onChange: () => choose(name) }),
        options[name],
      ),
    ),
  );
}

type FilterProps<State extends string> = {
  /** What is listed, in the plural. */
  what: string;
  states: readonly State[];
  state: State | undefined;
  setState: (state: State | undefined) => void;
};

/** Restricts a list to one state. */
export function StateFilter<State extends string>({ what, states, state, setState }: FilterProps<State>) {
  return h(
    'form',
    { class: 'fields', role: 'search', onSubmit: (event: Event) => event.preventDefault() },
    h(
      'label',
      null,
      'Show',
      h(
        'select',
        {
          value: state ?? '',
          onChange: ({ currentTarget }: { currentTarget: HTMLSelectElement }) =>
            setState(states.find((one) => one === currentTarget.value)),
        },
        h('option', { value: '' }, `all ${what}`),
        states.map((one) => h('option', { key: one, value: one }, `${one} ${what}`)),
      ),
    ),
  );
}
