/** Makes text areas grow with their text in browsers without `field-sizing`. */
export function growTextAreas(): void {
  if (CSS.supports("field-sizing", "content")) return;
  document.addEventListener("input", ({ target }) => {
    if (!(target instanceof HTMLTextAreaElement) || !target.classList.contains("grows")) return;
    target.style.height = "auto";
    target.style.height = `${target.scrollHeight}px`;
  });
}
