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
