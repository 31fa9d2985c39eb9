import { h } from 'preact';
import { useId } from 'preact/hooks';

type Props = {
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
export function ListChoice({ legend, all, offered, chosen, choose, error }: Props) {
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
