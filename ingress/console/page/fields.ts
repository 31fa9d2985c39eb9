import { type ComponentChildren, h } from 'preact';
import { useId } from 'preact/hooks';

type FieldAttributes = { id: string; 'aria-describedby'?: string; 'aria-invalid'?: 'true' };
type FieldProps = {
  label: string;
  hint?: string | undefined;
  /** Why the API refused the value. */
  error?: string | undefined;
  /** The control, with the attributes that connect it with these texts. */
  children: (attributes: FieldAttributes) => ComponentChildren;
};

/** A control with its label, a hint, and the error of the API about it. */
export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const describedBy = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ');
  return h(
    'div',
    { class: 'field' },
    h('label', { for: id }, label),
    children({
      id,
      ...(describedBy !== '' && { 'aria-describedby': describedBy }),
      ...(error !== undefined && { 'aria-invalid': 'true' }),
    }),
    hint && h('p', { class: 'quiet', id: `${id}-hint` }, hint),
    error && h('p', { class: 'wrong', id: `${id}-error` }, error),
  );
}

/** The latest time that a form accepts. JavaScript reads no year of more than four digits, which browsers accept otherwise. */
export const latestTime = '9999-12-31T23:59';

type TextFieldProps = Omit<FieldProps, 'children'> & {
  value: string;
  change: (value: string) => void;
  /** More attributes of the input. */
  input?: Readonly<Record<string, unknown>>;
};

export function TextField({ value, change, input, ...field }: TextFieldProps) {
  return h(Field, {
    ...field,
    children: (attributes: FieldAttributes) =>
      h('input', {
        type: 'text',
        autocomplete: 'off',
        ...input,
        ...attributes,
        value,
        onInput: ({ currentTarget }: { currentTarget: HTMLInputElement }) => change(currentTarget.value),
      }),
  });
}

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

type LabelledInputProps = {
  label: string;
  type: 'text' | 'search' | 'number' | 'date';
  value: string;
  change: (value: string) => void;
  /** More attributes of the input. */
  input?: Readonly<Record<string, unknown>>;
};

/** An input within its label, without a hint or error. */
export function LabelledInput({ label, type, value, change, input }: LabelledInputProps) {
  return h(
    'label',
    null,
    label,
    h('input', {
      type,
      autocomplete: 'off',
      ...input,
      value,
      onInput: ({ currentTarget }: { currentTarget: HTMLInputElement }) => change(currentTarget.value),
    }),
  );
}

type SelectProps<Name extends string> = {
  label: string;
  /** The options and their labels, in the order of the list. */
  options: ReadonlyMap<Name, string>;
  value: Name;
  change: (name: Name) => void;
};

export function Select<Name extends string>({ label, options, value, change }: SelectProps<Name>) {
  return h(
    'label',
    null,
    label,
    h(
      'select',
      {
        value,
        // Its options are the names.
        onChange: ({ currentTarget }: { currentTarget: HTMLSelectElement }) => change(currentTarget.value as Name),
      },
      [...options].map(([name, words]) => h('option', { key: name, value: name }, words)),
    ),
  );
}

/** Options that are labelled with their names. */
export function namedOptions(names: readonly string[]): ReadonlyMap<string, string> {
  return new Map(names.map((name) => [name, name]));
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
    h(Select<string>, {
      label: 'Show',
      options: new Map([['', `all ${what}`], ...states.map((one) => [one, `${one} ${what}`] as const)]),
      value: state ?? '',
      change: (value) => setState(states.find((one) => one === value)),
    }),
  );
}

type ListChoiceProps = {
  legend: string;
  /** The label for no restriction. */
  all: string;
  offered: readonly string[];
  /** Null: no restriction. */
  chosen: readonly string[] | null;
  choose: (chosen: readonly string[] | null) => void;
  error?: string | undefined;
};

/** All of a list, or some of it. What was chosen earlier stays on offer. To choose none of it is an error of the API, and not all of it. */
export function ListChoice({ legend, all, offered, chosen, choose, error }: ListChoiceProps) {
  const id = useId();
  const listed = [...new Set([...offered, ...(chosen ?? [])])];
  const toggle = (name: string, isOn: boolean) =>
    choose(listed.filter((each) => (each === name ? isOn : chosen?.includes(each))));
  return h(
    'fieldset',
    { class: error === undefined ? '' : 'refused', ...(error !== undefined && { 'aria-describedby': id }) },
    h('legend', null, legend),
    h(
      'div',
      { class: 'options' },
      h(Option, { type: 'radio', group: id, label: all, isOn: chosen === null, set: () => choose(null) }),
      h(Option, { type: 'radio', group: id, label: 'Only these', isOn: chosen !== null, set: () => choose([]) }),
    ),
    chosen !== null &&
      h(
        'div',
        { class: 'options inner' },
        listed.map((name) =>
          h(Option, {
            key: name,
            type: 'checkbox',
            label: name,
            isOn: chosen.includes(name),
            set: (isOn) => toggle(name, isOn),
          }),
        ),
      ),
    error && h('p', { class: 'wrong', id }, error),
  );
}

type OptionProps = {
  type: 'radio' | 'checkbox';
  group?: string;
  label: string;
  isOn: boolean;
  set: (isOn: boolean) => void;
};

function Option({ type, group, label, isOn, set }: OptionProps) {
  return h(
    'label',
    null,
    h('input', {
      type,
      ...(group !== undefined && { name: group }),
      checked: isOn,
      onChange: ({ currentTarget }: { currentTarget: HTMLInputElement }) => set(currentTarget.checked),
    }),
    label,
  );
}
