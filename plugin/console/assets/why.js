// Why a Service has an address, or would be refused: the answers of `kubectl clusterip why`.
import { h } from './dom.js'
import { suggestions } from './suggestions.js'

class Why extends HTMLElement {
  static title = 'Why'
  static path = rest => rest ? 'why?subject=' + encodeURIComponent(rest) : undefined

  connectedCallback() {
    this.left = new AbortController()
    this.input = h('input', { id: 'subject', name: 'subject', required: true, autocomplete: 'off', spellcheck: 'false', placeholder: 'service/shop/web', 'data-key': 'subject', value: this.subject })
    this.result = h('pre', { tabindex: 0, hidden: true, 'aria-live': 'polite' })
    const ask = () => { location.hash = 'why/' + encodeURIComponent(this.input.value.trim()) }
    this.replaceChildren(h('h2', {}, 'Why'), h('form', { onsubmit: e => { e.preventDefault(); ask() } },
      h('label', { for: 'subject' }, 'service/NAMESPACE/NAME, namespace/NAME, range/NAME, policy/NAME or an address'), suggestions(this.input, ask, this.left.signal), h('button', {}, 'Ask')), this.result)
  }

  disconnectedCallback() { this.left.abort() }

  set rest(value) {
    this.subject = value
    if (this.input && value && this.input.value !== value) this.input.value = value
  }

  get rest() { return this.subject }

  update(data) {
    this.result.hidden = false
    if (this.result.textContent !== data.text) this.result.textContent = data.text // a selection stays, and it is read aloud when it changes
  }
}

customElements.define('clusterip-why', Why)
