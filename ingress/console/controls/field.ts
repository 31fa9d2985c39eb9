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
